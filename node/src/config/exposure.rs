//! Whom the operator vouches for.

/// Who may reach the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Beyond this machine over TLS only. Any other listener beyond loopback is refused.
    Loopback,
    /// The same, but the peer port on loopback may be without TLS where callers need tokens: the operator vouches for every process of
    /// this machine, since any of them may act as a node.
    LocalPeers,
    /// Anyone whom the network lets through, even without TLS and tokens: the operator vouches for the network.
    Insecure,
}
