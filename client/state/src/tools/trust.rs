//! Which certificates a server of keys is known by.

use std::sync::Arc;

use helve_client::Error;
use helve_proto::Reason;
use rustls::crypto::{CryptoProvider, ring};

/// The library of cryptography of this crate. Where a process has chosen none, it becomes the process's own: the Redis client asks
/// for that one.
pub(super) fn provider() -> Arc<CryptoProvider> {
    // Lost to another thread, or to the process's own choice: then that one holds.
    let _chosen = ring::default_provider().install_default();
    Arc::new(ring::default_provider())
}

/// Of a certificate authority's file without TLS: a caller who gives one expects TLS.
pub(super) fn unused_ca(remedy: &str) -> Error {
    let message = format!("certificate authorities for a connection without TLS: {remedy}");
    Error::refused(Reason::BadRequest, message, 0, 0)
}
