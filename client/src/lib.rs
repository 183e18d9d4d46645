//! Handles, keys, transactions and guards for stateless MCP servers, on a Helve cluster or in this process.
//!
//! A [`Client`] comes from a host: [`ClusterBuilder`] reaches a cluster, [`MemoryBuilder`] runs the same state machine
//! in this process. On either host it makes stores:
//!
//! | store | what it keeps |
//! |---|---|
//! | [`Handles`], a [`HandleStore`] | values under ids that it mints, for a model to pass from call to call |
//! | [`Keys`], a [`StateTool`] | JSON or bytes under keys of the caller's choice |
//! | [`Transaction`] | writes to both, all or nothing |
//! | [`Guards`] | locks that expire, with fencing tokens |
//! | [`Claims`] | side effects that must happen once, with their results |
//!
//! [`Client::watch`] tells changes of records as they happen. [`within_trace`] makes calls in a span of the caller's.
//!
//! ```
//! # #[cfg(feature = "memory")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), helve_client::Error> {
//! use helve_client::{HandleOptions, HandleStore, HandleStoreExt, MemoryBuilder, Resolved, Ttl};
//!
//! let client = MemoryBuilder::new().build()?; // or ClusterBuilder::new(["a:7400", "b:7400"]).build()?
//! let carts = client.handles::<Vec<String>>(HandleOptions::shared("cart").id_prefix("cart"));
//! let id = carts.mint(&vec![], Ttl::Default).await?;
//! let add = |mut cart: Vec<String>| {
//!     cart.push("tea".to_owned());
//!     cart
//! };
//! carts.update(&id, add).await?;
//! let Resolved::Live(cart) = carts.take(&id).await? else { panic!("another caller took it") };
//! assert_eq!(cart.value, ["tea"]);
//! assert_eq!(carts.take(&id).await?, Resolved::Taken);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "memory"))]
//! # fn main() {}
//! ```
//!
//! The directory `examples/` of this crate has five programs that run against a cluster.
//!
//! # Errors
//! Every call returns within the client's deadline (5 s by default). Until then a call that a node refuses for now, or
//! does not answer, is tried on the next node under the same identity. So a mutation takes effect at most once, and
//! its retry returns the first outcome. [`ErrorKind`] says what to do about the rest. A call whose future is dropped,
//! or that ended as [`Ambiguous`](ErrorKind::Ambiguous), gives its identity up: its outcome cannot be known later.
//!
//! # Features
//! | feature | what it adds | on by default |
//! |---|---|---|
//! | `cluster` | [`ClusterBuilder`]: a cluster over gRPC | yes |
//! | `tls` | [`Tls`]: the cluster over TLS | yes |
//! | `memory` | [`MemoryBuilder`]: the state machine in this process | no |
//!
//! # Other crates
//! - `helve-state`: state tools on files, Redis, PostgreSQL and S3, versions, event logs, a write queue.
//! - `helve-request-state`: sealed request state, client state, values sealed end to end.
//! - `helve-mcp`: MCP servers on this crate.
//! - `helve-conformance`: the suite for other implementations of [`HandleStore`] and [`StateTool`].

mod backend;
mod claims;
mod client;
#[cfg(feature = "cluster")]
mod cluster;
mod codec;
mod error;
pub mod exact;
pub mod extend;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod guard;
mod handle_store;
mod handles;
mod keys;
pub mod limits;
#[cfg(feature = "memory")]
mod memory;
mod owner;
mod partition;
mod promises;
#[cfg(test)]
mod properties;
mod record;
mod retry;
#[cfg(test)]
mod seeds;
mod state_tool;
mod steps;
mod trace;
mod transaction;
mod ttl;
#[cfg(test)]
mod vectors;
mod watch;

pub use backend::{Backend, Request};
pub use claims::{
    AbandonOutcome, BeginOutcome, Claims, EarlierLease, FinishOutcome, InFlight, Lease, LeaseEnd,
};
pub use client::Client;
#[cfg(feature = "tls")]
pub use cluster::Tls;
#[cfg(feature = "cluster")]
pub use cluster::{Address, Bearer, Between, ClusterBuilder, Failure, NodeConnection};
pub use codec::{Codec, Json, Raw};
pub use error::{Error, ErrorKind};
pub use guard::{Guard, Guards};
pub use handle_store::{HandleStore, HandleStoreExt, PutOutcome, TakeOutcome};
pub use handles::{HandleOptions, Handles};
pub use helve_proto::{
    Reason, TraceParent,
    v1::{self, ChangeKind, RecordInfo},
};
pub use keys::{KeyOptions, Keys};
#[cfg(feature = "memory")]
pub use memory::MemoryBuilder;
pub use owner::Owner;
pub use partition::{PartitionOptions, PartitionState};
pub use promises::Promises;
pub use record::{Listing, NotLive, Page, Record, Resolved};
pub use state_tool::{StateTool, StoreOutcome};
pub use trace::within_trace;
pub use transaction::{Committed, Transacted, Transaction};
pub use ttl::Ttl;
pub use watch::{Change, Changed, Changes, Watch, WatchParts};
