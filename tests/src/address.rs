//! Where nodes listen: each cluster has a loopback address of its own, so that its ports are free and stay its own over restarts.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process,
    sync::atomic::{AtomicU8, Ordering},
};

/// The listeners of one node, and of what may stand before them.
#[derive(Debug, Clone, Copy)]
pub struct Listeners {
    /// Clients' gRPC.
    pub client: SocketAddr,
    /// The other nodes' gRPC.
    pub peer: SocketAddr,
    /// Health and metrics.
    pub http: SocketAddr,
    /// Before `peer`, where the network can be broken.
    pub peer_front: SocketAddr,
    /// Before `client`, where the network can be broken.
    pub client_front: SocketAddr,
}

impl Listeners {
    /// Those of a seat, from 1, on a cluster's address.
    #[must_use]
    pub fn of_seat(address: IpAddr, seat: u64) -> Self {
        let first = 7390 + 10 * u16::try_from(seat).expect("tests start few nodes");
        let at = |port| SocketAddr::new(address, port);
        Self {
            client: at(first),
            peer: at(first + 1),
            http: at(first + 2),
            peer_front: at(first + 3),
            client_front: at(first + 4),
        }
    }
}

/// An address of 127.0.0.0/8 that no other cluster of this process has. Other processes differ in the middle bytes.
#[must_use]
pub fn next_loopback() -> IpAddr {
    static LAST: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = process::id().to_be_bytes();
    // 127.0.*.* stays the machine's own.
    let second = 1 + high % 254;
    let last = 1 + LAST.fetch_add(1, Ordering::Relaxed) % 254;
    IpAddr::V4(Ipv4Addr::new(127, second, low, last))
}
