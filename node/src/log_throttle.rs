//! One line in the log for many of the same, as the HTTP listeners have it.

pub(crate) use helve_http::LogThrottle;
