//! State tools that keep their keys elsewhere than in Helve. Each says in its [`Promises`](crate::Promises) what it cannot promise.

mod bounds;
#[cfg(feature = "file")]
mod file;
mod gate;
mod keeper;
#[cfg(any(feature = "file", feature = "s3"))]
mod names;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "file", feature = "s3"))]
mod row;
#[cfg(feature = "s3")]
mod s3;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod trust;

use std::time::Duration;

#[cfg(feature = "file")]
pub use file::FileTool;
#[cfg(feature = "postgres")]
pub use postgres::PostgresTool;
#[cfg(feature = "redis")]
pub use redis::RedisTool;
#[cfg(feature = "s3")]
pub use s3::{S3Options, S3Tool};

use crate::{
    error::{Error, ErrorKind},
    limits,
    ttl::{Defaults, Ttl},
};
use helve_proto::v1::lifetime::Absolute;

/// What all these tools can be told.
#[derive(Debug, Clone, Copy)]
pub struct ToolOptions {
    default_ttl: Option<Duration>,
    deadline: Duration,
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

    /// What [`Ttl::Default`], and so every plain store, stands for. Without it: for ever.
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

    fn lifespan(&self, ttl: Ttl) -> Result<Lifespan, Error> {
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
enum Lifespan {
    Never,
    AfterMs(u64),
    Keep,
}

#[cfg(any(feature = "redis", feature = "postgres", feature = "s3"))]
fn unavailable(what: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let error = error.into();
    Error::new(ErrorKind::Unavailable, format!("{what}: {error}")).with_source(error)
}

fn ambiguous(what: &str, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let error = error.into();
    let message = format!("{what}, and whether the write took effect is not known: {error}");
    Error::new(ErrorKind::Ambiguous, message).with_source(error)
}
