//! Where nodes listen: each cluster has a loopback address of its own, so that its ports are free and stay its own over restarts.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    process,
    sync::{Mutex, PoisonError},
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

/// The port that marks an address as taken, below those of seat 1.
const CLAIM_PORT: u16 = 7389;

/// Addresses from 127.1.0.0 on; 127.0.0.0/16 stays the machine's own.
const FIRST: u32 = 0x7f01_0000;
/// All but the last, which is the broadcast address.
const ADDRESSES: u32 = 0x00fe_ffff;

/// An address of 127.0.0.0/8 that no other cluster has, in this process or another: a socket that stays open until the process ends
/// holds it.
///
/// # Panics
///
/// If no address is free.
#[must_use]
pub fn next_loopback() -> IpAddr {
    static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Begins elsewhere in each process, so that a process rarely meets what another has.
    let begin = process::id().wrapping_mul(0x101);
    let candidates = (0..ADDRESSES).map(|step| FIRST + begin.wrapping_add(step) % ADDRESSES);
    for candidate in candidates.skip(taken.len()) {
        let address = IpAddr::V4(Ipv4Addr::from_bits(candidate));
        if let Ok(claim) = UdpSocket::bind((address, CLAIM_PORT)) {
            taken.push(claim);
            return address;
        }
    }
    panic!("no address of 127.0.0.0/8 is free for a cluster");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_clusters_of_a_process_have_one_address() {
        let addresses: BTreeSet<IpAddr> = (0..600).map(|_| next_loopback()).collect();
        assert_eq!(addresses.len(), 600);
    }
}
