//! What a host tells the suite.

use helve_client::Client;

/// What is put to the test.
pub trait Host: Send + Sync {
    /// An open client of the host. Clients of different `node`s begin with different nodes, where
    /// there are several; where there is one, or none, the number does not matter. Called again, it
    /// may return the same client.
    fn client(&self, node: usize) -> Client;

    /// A client of its own, which a case may close.
    fn own_client(&self) -> Client;

    /// Whether calls cost so little that cases may make ten times as many; if not told, no.
    fn is_in_process(&self) -> bool {
        false
    }
}
