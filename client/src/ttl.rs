//! How long a record lives, as a caller says it.

use std::time::Duration;

use helve_proto::{
    Reason,
    v1::{Lifetime, Unit, lifetime::Absolute},
};

use crate::error::Error;

/// How long a record lives from a write on. Time is the cluster's replicated clock, in whole milliseconds: a fraction counts as
/// one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ttl {
    /// What the store's options say: their `default_ttl`, without one for ever.
    #[default]
    Default,
    /// No deadline, whatever the options say. Only an idle time of the options still ends the record.
    Never,
    /// This long. Zero, and what does not fit 64 bits of milliseconds, is refused as
    /// [`Invalid`](crate::ErrorKind::Invalid).
    After(Duration),
    /// The deadline and the idle time that the record has; the idle time restarts. A record that
    /// does not exist yet gets neither.
    Keep,
}

/// The lifetimes that a store's options set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults {
    /// What [`Ttl::Default`] means; `None`: no deadline.
    pub ttl: Option<Duration>,
    /// The time without use after which a record expires; `None`: it has no idle time.
    pub idle_ttl: Option<Duration>,
}

impl Ttl {
    /// Returns the lifetime that a request bears.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lifetime of zero, and for one that does not fit 64 bits of
    /// milliseconds.
    pub fn lifetime(self, defaults: Defaults) -> Result<Lifetime, Error> {
        let absolute = match (self, defaults.ttl) {
            (Self::Never, _) | (Self::Default, None) => Absolute::Never(Unit {}),
            (Self::After(ttl), _) | (Self::Default, Some(ttl)) => Absolute::AfterMs(millis(ttl)?),
            (Self::Keep, _) => {
                return Ok(Lifetime {
                    absolute: Some(Absolute::Keep(Unit {})),
                    idle_ttl_ms: None,
                });
            }
        };
        Ok(Lifetime {
            absolute: Some(absolute),
            idle_ttl_ms: defaults.idle_ttl.map(millis).transpose()?,
        })
    }
}

/// Whole milliseconds, rounded up so that a record never dies early.
pub(crate) fn millis(ttl: Duration) -> Result<u64, Error> {
    let refused = |message: &str| Err(Error::refused(Reason::BadLifetime, message, 0, 0));
    if ttl.is_zero() {
        return refused("a lifetime of zero: use Ttl::Default or Ttl::Never, or delete the record");
    }
    match u64::try_from(ttl.as_nanos().div_ceil(1_000_000)) {
        Ok(ms) => Ok(ms),
        Err(_) => refused("a lifetime that does not fit 64 bits of milliseconds: use Ttl::Never"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{error::ErrorKind, vectors::part};

    const DEFAULTS: Defaults = Defaults {
        ttl: Some(Duration::from_secs(2)),
        idle_ttl: Some(Duration::from_secs(1)),
    };

    fn lifetime(absolute: Absolute, idle_ttl_ms: Option<u64>) -> Lifetime {
        Lifetime {
            absolute: Some(absolute),
            idle_ttl_ms,
        }
    }

    #[test]
    fn the_default_is_resolved_by_the_client() {
        let with = Ttl::Default.lifetime(DEFAULTS).unwrap();
        assert_eq!(with, lifetime(Absolute::AfterMs(2000), Some(1000)));
        let without = Ttl::Default.lifetime(Defaults::default()).unwrap();
        assert_eq!(without, lifetime(Absolute::Never(Unit {}), None));
    }

    #[test]
    fn never_overrides_the_default_and_keep_leaves_both_to_the_record() {
        let never = Ttl::Never.lifetime(DEFAULTS).unwrap();
        assert_eq!(never, lifetime(Absolute::Never(Unit {}), Some(1000)));
        let keep = Ttl::Keep.lifetime(DEFAULTS).unwrap();
        assert_eq!(keep, lifetime(Absolute::Keep(Unit {}), None));
    }

    #[test]
    fn fractions_round_up_and_what_does_not_fit_is_refused() {
        let nano = Ttl::After(Duration::from_nanos(1)).lifetime(Defaults::default());
        assert_eq!(nano.unwrap(), lifetime(Absolute::AfterMs(1), None));
        for ttl in [Duration::ZERO, Duration::MAX] {
            let refused = Ttl::After(ttl).lifetime(Defaults::default()).unwrap_err();
            assert_eq!(refused.reason(), Some(Reason::BadLifetime));
        }
    }

    fn ns(value: &Value) -> Option<Duration> {
        value.as_u64().map(Duration::from_nanos)
    }

    fn sent(value: &Value) -> Lifetime {
        let absolute = match value["after_ms"].as_u64() {
            Some(ms) => Absolute::AfterMs(ms),
            None if value["never"].is_object() => Absolute::Never(Unit {}),
            None if value["keep"].is_object() => Absolute::Keep(Unit {}),
            None => panic!("no lifetime {value}"),
        };
        lifetime(absolute, value["idle_ttl_ms"].as_u64())
    }

    #[test]
    fn lifetimes_are_sent_or_refused_as_the_vectors_say() {
        for case in part("lifetimes.json", "cases") {
            let ttl = match case["ttl"].as_str() {
                Some("default") => Ttl::Default,
                Some("never") => Ttl::Never,
                Some("keep") => Ttl::Keep,
                Some(other) => panic!("no lifetime {other}"),
                None => Ttl::After(ns(&case["ttl_ns"]).unwrap()),
            };
            let found = ttl.lifetime(Defaults {
                ttl: ns(&case["default_ttl_ns"]),
                idle_ttl: ns(&case["idle_ttl_ns"]),
            });
            match case["refused"].as_str() {
                None => assert_eq!(found.unwrap(), sent(&case["sent"]), "{case}"),
                Some(reason) => {
                    let refused = found.unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::Invalid, "{case}");
                    let found = refused.reason().map(Reason::as_str);
                    assert_eq!(found, Some(reason), "{case}");
                }
            }
        }
    }
}
