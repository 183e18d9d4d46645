//! What a server of protocol 2026-07-28 says of itself, for as long as it says it may be kept.

use std::time::Duration;

use helve_client::{Error, ErrorKind};
use serde_json::Value;

/// No result of `server/discover` is kept for longer, whatever the server says: a day, as rmcp's client has it.
pub const DISCOVER_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// For whom a result may be kept (SEP-2549).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// For every client of the server.
    Public,
    /// For the client that asked, alone: what a result is that does not say.
    Private,
}

/// A result of `server/discover` that is fresh.
#[derive(Debug, Clone, PartialEq)]
pub struct Discovered {
    /// The result, as the server sent it.
    pub result: Value,
    /// For whom it is kept.
    pub scope: CacheScope,
    /// From when on it is not there any more, in milliseconds since the Unix epoch on the cluster's clock.
    pub fresh_until_ms: Option<u64>,
}

/// Scope, and for how long.
///
/// # Errors
/// [`Codec`](ErrorKind::Codec) if it is no object, or its hints are of the wrong type.
pub(super) fn hints(result: &Value) -> Result<(CacheScope, Duration), Error> {
    let refused = |message: &str| Err(Error::new(ErrorKind::Codec, message));
    let Some(result) = result.as_object() else {
        return refused("a result of server/discover must be a JSON object");
    };
    let scope = match result.get("cacheScope").map(Value::as_str) {
        Some(Some("public")) => CacheScope::Public,
        // A scope that this version does not know is no leave to share.
        None | Some(Some(_)) => CacheScope::Private,
        Some(None) => return refused("cacheScope must be a string"),
    };
    let ttl_ms = match result.get("ttlMs") {
        None => 0,
        Some(ttl) => match ttl.as_u64() {
            Some(ttl_ms) => ttl_ms,
            None => return refused("ttlMs must be a whole number of milliseconds, 0 or more"),
        },
    };
    Ok((scope, Duration::from_millis(ttl_ms).min(DISCOVER_TTL_MAX)))
}
