//! State handles and keys for stateless MCP servers: the traits, and their stores on a Helve cluster or in this process.

mod backend;
#[cfg(feature = "cluster")]
mod channel;
mod client;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod handle_store;
mod handles;
mod keys;
mod limits;
#[cfg(feature = "memory")]
mod memory;
mod record;
mod retry;
#[cfg(feature = "cluster")]
mod session;
mod state_tool;
mod transaction;
mod ttl;

pub use backend::{Backend, Request};
pub use client::Client;
#[cfg(feature = "cluster")]
pub use cluster::ClusterBuilder;
pub use error::{Error, ErrorKind};
pub use handle_store::{HandleStore, HandleStoreExt, PutOutcome};
pub use handles::{HandleOptions, Handles};
pub use helve_proto::{
    Reason,
    v1::{self, RecordInfo},
};
pub use keys::{KeyOptions, Keys};
#[cfg(feature = "memory")]
pub use memory::MemoryBuilder;
pub use record::{Listing, Record, Resolved};
pub use state_tool::{StateTool, StoreOutcome};
pub use transaction::{Committed, NotLive, Transacted, Transaction};
pub use ttl::Ttl;
