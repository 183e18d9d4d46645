//! The gRPC contracts of Helve, generated from `proto/`.
//!
//! - [`v1`]: the public services: handles, keys, transactions, calls, cluster.
//! - [`command::v1`]: what is replicated, and the rows that it leaves on disk.
//! - [`peer::v1`]: node to node.
//! - [`operations`]: what each operation is, in one table.
//!
//! Features: `messages` (default) has the messages alone, `client` and `server` add their side of the public services, `peer` both sides of the
//! service between nodes. `json` checks what a parser of JSON would drop without a word, for clients and nodes alike.

/// The public contract, package `helve.v1`.
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/helve.v1.rs"));
}

/// What is replicated.
pub mod command {
    /// Package `helve.command.v1`.
    #[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/helve.command.v1.rs"));
    }
}

/// Node to node.
pub mod peer {
    /// Package `helve.peer.v1`.
    #[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/peer/helve.peer.v1.rs"));
    }
}

/// The descriptors of all the contracts, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/helve.bin"));

/// The `domain` of every `google.rpc.ErrorInfo` that Helve sends.
pub const ERROR_DOMAIN: &str = "helve.v1";

#[cfg(feature = "peer")]
mod checked;
#[cfg(feature = "json")]
pub mod json;
mod loopback;
mod not_pem;
pub mod operations;
mod reason;
mod shown_url;
mod token_file;
mod trace_parent;

pub use loopback::{is_loopback, is_loopback_host};
pub use not_pem::NotPem;
pub use reason::Reason;
pub use shown_url::shown_url;
pub use token_file::NotAToken;
pub use trace_parent::TraceParent;
