//! Lifetimes on the command line.

use std::time::Duration;

use helve_command::duration;
use helve_proto::v1::{Lifetime, Unit, lifetime::Absolute};

/// Flags of a command that sets a lifetime.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LifetimeArgs {
    /// Lifetime of the record: a duration such as 90s, 1h30m or 7d, `never` for no end, or `keep`
    /// for the one it has
    #[arg(long, default_value = "never", value_parser = parse, env = "HELVE_TTL", value_name = "TTL")]
    pub ttl: Ttl,

    /// Time without a get or renewal after which the record expires, such as 15m
    #[arg(long, value_parser = duration::parse, env = "HELVE_IDLE_TTL", value_name = "DURATION")]
    pub idle_ttl: Option<Duration>,
}

/// Flags of a command that makes a record, which has no lifetime yet that it could keep.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NewLifetimeArgs {
    /// Lifetime of the record: a duration such as 90s, 1h30m or 7d, or `never` for no end
    #[arg(long, default_value = "never", value_parser = parse_new, env = "HELVE_TTL", value_name = "TTL")]
    pub ttl: Ttl,

    /// Time without a get or renewal after which the record expires, such as 15m
    #[arg(long, value_parser = duration::parse, env = "HELVE_IDLE_TTL", value_name = "DURATION")]
    pub idle_ttl: Option<Duration>,
}

impl NewLifetimeArgs {
    /// The lifetime on the wire.
    #[must_use]
    pub(crate) fn lifetime(&self) -> Lifetime {
        lifetime(self.ttl, self.idle_ttl)
    }
}

/// An absolute lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// No end.
    Never,
    /// What the record has.
    Keep,
    /// This long from now.
    After(Duration),
}

/// Parses a lifetime.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Ttl, String> {
    match text {
        "never" => Ok(Ttl::Never),
        "keep" => Ok(Ttl::Keep),
        _ => duration::parse(text)
            .map(Ttl::After)
            .map_err(|why| format!("{why}, never or keep")),
    }
}

/// Parses the lifetime of a new record.
///
/// # Errors
/// What is wrong with it.
fn parse_new(text: &str) -> Result<Ttl, String> {
    match parse(text) {
        Ok(Ttl::Keep) => Err(
            "a new record has no lifetime to keep: give a duration such as 1h, or never".to_owned(),
        ),
        parsed => parsed,
    }
}

impl LifetimeArgs {
    /// The lifetime on the wire.
    #[must_use]
    pub(crate) fn lifetime(&self) -> Lifetime {
        lifetime(self.ttl, self.idle_ttl)
    }
}

/// A lifetime on the wire.
#[must_use]
pub(crate) fn lifetime(ttl: Ttl, idle_ttl: Option<Duration>) -> Lifetime {
    let absolute = match ttl {
        Ttl::Never => Absolute::Never(Unit {}),
        Ttl::Keep => Absolute::Keep(Unit {}),
        Ttl::After(time) => Absolute::AfterMs(milliseconds(time)),
    };
    Lifetime {
        absolute: Some(absolute),
        idle_ttl_ms: idle_ttl.map(milliseconds),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_duration_or_never_or_keep() {
        assert_eq!(parse("1h"), Ok(Ttl::After(Duration::from_secs(3_600))));
        assert_eq!(parse("never"), Ok(Ttl::Never));
        assert_eq!(parse("keep"), Ok(Ttl::Keep));
        assert_eq!(parse_new("never"), Ok(Ttl::Never));
        assert!(parse_new("keep").is_err(), "there is nothing to keep");
        assert!(parse("forever").unwrap_err().contains("never or keep"));
        let idle = lifetime(Ttl::Never, Some(Duration::from_millis(1_500)));
        assert_eq!(idle.idle_ttl_ms, Some(1_500));
    }
}
