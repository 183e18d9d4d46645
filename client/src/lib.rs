//! State handles and keys for stateless MCP servers: the traits, and their stores on a Helve cluster or in this process.
//!
//! A [`Client`] comes from a host: [`ClusterBuilder`] reaches a cluster (feature `cluster`, on by default), [`MemoryBuilder`] runs
//! the same state machine in this process (feature `memory`). On any host it makes stores: [`Handles`], a [`HandleStore`] of values
//! under ids that it mints; [`Keys`], a [`StateTool`] of JSON under keys; [`Transaction`]s over both; and [`Guards`], locks that
//! expire.
//!
//! ```
//! # #[cfg(feature = "memory")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), helve_client::Error> {
//! use helve_client::{HandleOptions, HandleStore, HandleStoreExt, MemoryBuilder, Resolved, Ttl};
//!
//! let client = MemoryBuilder::new().build()?;
//! let carts = client.handles::<Vec<String>>(HandleOptions::shared("cart").id_prefix("cart"));
//! let id = carts.mint(&vec![], Ttl::Default).await?;
//! let add = |mut cart: Vec<String>| {
//!     cart.push("tea".to_owned());
//!     cart
//! };
//! carts.update(&id, add).await?;
//! let Resolved::Live(cart) = carts.take(&id).await? else { panic!("nobody else took it") };
//! assert_eq!(cart.value, ["tea"]);
//! assert_eq!(carts.take(&id).await?, Resolved::Taken);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "memory"))]
//! # fn main() {}
//! ```
//!
//! On a cluster only the host is another:
//!
//! ```no_run
//! # #[cfg(feature = "cluster")]
//! # fn client() -> Result<helve_client::Client, helve_client::Error> {
//! use helve_client::ClusterBuilder;
//!
//! let client = ClusterBuilder::new(["a:7400", "b:7400", "c:7400"]).build()?;
//! # Ok(client)
//! # }
//! ```
//!
//! # Calls that fail
//! Every call is answered within the client's deadline (5 s by default). Until then a call that a node refuses for now, or does not
//! answer, is tried on the next, always under the same identity, so a mutation takes effect at most once and its retry is
//! answered with the first outcome. [`ErrorKind`] says what to do about the rest. A call whose future is dropped, or that ended
//! as [`Ambiguous`](ErrorKind::Ambiguous), gives its identity up: its outcome will not be known any more.

#[cfg(feature = "cluster")]
mod address;
#[cfg(feature = "patterns")]
mod audited;
mod backend;
#[cfg(feature = "cluster")]
mod bearer;
#[cfg(feature = "cluster")]
mod channel;
mod client;
#[cfg(feature = "client-state")]
pub mod client_state;
#[cfg(feature = "cluster")]
mod cluster;
mod codec;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "cluster")]
mod dial;
#[cfg(feature = "patterns")]
mod doubt;
mod error;
#[cfg(feature = "patterns")]
mod event_log;
pub mod exact;
#[cfg(feature = "cluster")]
mod exchange;
#[cfg(feature = "cluster")]
mod greeted;
mod guard;
mod handle_store;
mod handles;
mod keys;
mod limits;
#[cfg(feature = "cluster")]
mod line;
#[cfg(feature = "cluster")]
mod line_error;
#[cfg(feature = "memory")]
mod memory;
mod owner;
#[cfg(feature = "partition")]
mod partition;
#[cfg(feature = "patterns")]
mod prefixed;
#[cfg(any(feature = "file", feature = "write-queue"))]
mod private_files;
mod promises;
#[cfg(test)]
mod properties;
mod record;
#[cfg(feature = "patterns")]
mod resolve;
mod retry;
#[cfg(feature = "sealed")]
mod sealed;
#[cfg(feature = "cluster")]
mod session;
#[cfg(feature = "request-state")]
pub mod state_codec;
mod state_tool;
mod steps;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "state-config")]
mod tool_config;
#[cfg(feature = "tools")]
mod tools;
mod transaction;
mod ttl;
#[cfg(feature = "cluster")]
mod verdict;
#[cfg(feature = "patterns")]
mod versions;
#[cfg(feature = "write-queue")]
mod write_queue;

#[cfg(feature = "cluster")]
pub use address::Address;
#[cfg(feature = "patterns")]
pub use audited::Audited;
pub use backend::{Backend, Request};
#[cfg(feature = "cluster")]
pub use bearer::Bearer;
pub use client::Client;
#[cfg(feature = "cluster")]
pub use cluster::ClusterBuilder;
pub use codec::{Codec, Json, Raw};
pub use error::{Error, ErrorKind};
#[cfg(feature = "patterns")]
pub use event_log::{Event, EventLog, Replay};
pub use guard::{Guard, Guards};
pub use handle_store::{HandleStore, HandleStoreExt, PutOutcome, TakeOutcome};
pub use handles::{HandleOptions, Handles};
pub use helve_proto::{
    Reason,
    v1::{self, RecordInfo},
};
pub use keys::{KeyOptions, Keys};
#[cfg(feature = "cluster")]
pub use line::Line;
#[cfg(feature = "memory")]
pub use memory::MemoryBuilder;
pub use owner::Owner;
#[cfg(feature = "partition")]
pub use partition::{PartitionOptions, PartitionState};
#[cfg(feature = "patterns")]
pub use prefixed::Prefixed;
pub use promises::Promises;
pub use record::{Listing, Page, Record, Resolved};
#[cfg(feature = "patterns")]
pub use resolve::{Contested, Resolution, Settled, StateToolExt};
#[cfg(feature = "sealed")]
pub use sealed::EndToEnd;
pub use state_tool::{StateTool, StoreOutcome};
#[cfg(feature = "tls")]
pub use tls::Tls;
#[cfg(feature = "state-config")]
pub use tool_config::{StateToolConfig, create_state_tool};
#[cfg(feature = "file")]
pub use tools::FileTool;
#[cfg(feature = "postgres")]
pub use tools::PostgresTool;
#[cfg(feature = "redis")]
pub use tools::RedisTool;
#[cfg(feature = "tools")]
pub use tools::ToolOptions;
#[cfg(feature = "s3")]
pub use tools::{S3Options, S3Tool};
pub use transaction::{Committed, NotLive, Transacted, Transaction};
pub use ttl::Ttl;
#[cfg(feature = "patterns")]
pub use versions::{Version, Versions};
#[cfg(feature = "write-queue")]
pub use write_queue::{Condition, Drained, QueueOptions, Queued, Report, Verdict, WriteQueue};
