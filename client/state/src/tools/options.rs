//! What every tool on another store is told.

use std::time::Duration;

use helve_client::{Error, Ttl, extend::Defaults, limits};
use helve_proto::v1::lifetime::Absolute;

/// What all these tools can be told.
#[derive(Debug, Clone, Copy)]
pub struct ToolOptions {
    default_ttl: Option<Duration>,
    pub(super) deadline: Duration,
}

impl Default for ToolOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ToolOptions {
    /// Keys live for ever; a call may take 5 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            default_ttl: None,
            deadline: limits::DEADLINE,
        }
    }

    /// What [`Ttl::Default`], and so every plain store, means. Without it: for ever.
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = Some(ttl);
        self
    }

    /// How long each call may take; a day at most.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    pub(super) fn lifespan(&self, ttl: Ttl) -> Result<Lifespan, Error> {
        let defaults = Defaults {
            ttl: self.default_ttl,
            idle_ttl: None,
        };
        match ttl.lifetime(defaults)?.absolute {
            Some(Absolute::AfterMs(ms)) if ms > LIFESPAN_MS_MAX => {
                let message = "a lifetime of more than a thousand years: use Ttl::Never";
                Err(Error::refused(
                    helve_proto::Reason::BadLifetime,
                    message,
                    0,
                    0,
                ))
            }
            Some(Absolute::AfterMs(ms)) => Ok(Lifespan::AfterMs(ms)),
            Some(Absolute::Keep(_)) => Ok(Lifespan::Keep),
            Some(Absolute::Default(_) | Absolute::Never(_)) | None => Ok(Lifespan::Never),
        }
    }
}

/// So that a deadline fits every clock.
const LIFESPAN_MS_MAX: u64 = 1000 * 366 * 24 * 3600 * 1000;

/// A lifetime with the default resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifespan {
    Never,
    AfterMs(u64),
    Keep,
}
