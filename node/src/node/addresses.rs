//! Where a node listens.

use std::net::SocketAddr;

/// Where a node listens.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// For clients.
    pub client: SocketAddr,
    /// For peers.
    pub peer: SocketAddr,
    /// For probes and metrics.
    pub http: SocketAddr,
}
