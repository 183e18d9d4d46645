//! Errors of the stores behind the tools.

use helve_client::{Error, ErrorKind};

#[cfg(any(feature = "redis", feature = "postgres", feature = "s3"))]
pub(super) fn unavailable(
    what: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    let error = error.into();
    Error::new(ErrorKind::Unavailable, format!("{what}: {error}")).with_source(error)
}

pub(super) fn ambiguous(
    what: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    let error = error.into();
    let message = format!("{what}, and whether the write took effect is not known: {error}");
    Error::new(ErrorKind::Ambiguous, message).with_source(error)
}
