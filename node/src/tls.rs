//! TLS of the node's ports, and of its connections to other nodes (RFC 8446; TLS 1.2, RFC 5246, is the oldest that is logged).
//!
//! ```text
//! files ► port.rs (all files of a port, as one) ──► watch.rs (again, when they change)
//!            ├─► server side: connections.rs, service/http.rs
//!            └─► dialling side, peers only: peer_channel/connector.rs
//! ```
//!
//! Every certificate is checked against CAs that the operator names; what the operating system trusts is not asked. A node's certificate
//! says that it is one by the URI [`NODE_URI`](certificate::NODE_URI) among its names: so one CA can sign for nodes and clients alike, and
//! a client still is no peer.

pub mod authority;
pub mod certificate;
mod files;
mod port;
mod usage;
mod verify;
pub mod watch;
pub mod words;

pub use self::{
    files::{NamedFile, TlsError},
    port::{PortFiles, PortTls, Trust, calling, trusting},
};
