//! State tools for agents: JSON values under keys, on a Helve cluster or on another store, and what agents do with
//! them.
//!
//! A [`StateTool`](helve_client::StateTool) stores, retrieves, lists and deletes. [`Keys`](helve_client::Keys) of
//! the client crate is one, on a cluster or in memory. This crate adds tools on files, Redis, PostgreSQL and S3, a
//! YAML document that configures any of them, and patterns that run on all:
//!
//! | item | what it does |
//! |---|---|
//! | [`StateToolExt`] | updates under contention, and resolves conflicts |
//! | [`Versions`] | saves numbered versions of a state |
//! | [`EventLog`] | appends events, and replays them in order |
//! | [`Prefixed`] | shows one agent the keys below its prefix only |
//! | [`Audited`] | writes an audit event for each call |
//!
//! ```
//! # #[cfg(feature = "file")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use helve_client::StateTool;
//! use helve_state::{FileTool, StateToolExt, ToolOptions};
//!
//! let directory = tempfile::tempdir()?;
//! let tool = FileTool::open(directory.path(), ToolOptions::new())?;
//! for _ in 0..3 {
//!     tool.update("visits", |seen| (seen.and_then(|n| n.as_u64()).unwrap_or(0) + 1).into()).await?;
//! }
//! assert_eq!(tool.retrieve("visits").await?, Some(3.into()));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "file"))]
//! # fn main() {}
//! ```
//!
//! # Errors
//! Every call fails with the [`Error`](helve_client::Error) of the client crate; its kind says what to do. Each tool
//! says in its [`Promises`](helve_client::Promises) what it cannot promise.
//!
//! # Features
//! | feature | what it adds |
//! |---|---|
//! | `file` | `FileTool`: JSON files below a directory |
//! | `redis` | `RedisTool` |
//! | `postgres` | `PostgresTool` |
//! | `s3` | `S3Tool`, for AWS and object stores that speak its protocol |
//! | `yaml` | `StateToolConfig` and `create_state_tool`: any tool from a YAML document |
//! | `write-queue` | `WriteQueue`: writes wait on disk until the cluster can be reached |
//!
//! None is on by default.

mod audited;
mod doubt;
mod event_log;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(any(feature = "tools", feature = "write-queue"))]
mod limits;
mod prefixed;
#[cfg(any(feature = "file", feature = "write-queue"))]
mod private_files;
mod resolve;
#[cfg(all(test, feature = "yaml"))]
#[path = "../../src/seeds.rs"]
mod seeds;
#[cfg(feature = "yaml")]
mod tool_config;
#[cfg(feature = "tools")]
mod tools;
mod versions;
#[cfg(feature = "write-queue")]
mod write_queue;

pub use audited::Audited;
pub use event_log::{Event, EventLog, Replay};
pub use prefixed::Prefixed;
pub use resolve::{Contested, Resolution, Settled, StateToolExt};
#[cfg(feature = "yaml")]
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
pub use versions::{Version, Versions};
#[cfg(feature = "write-queue")]
pub use write_queue::{Condition, Drained, QueueOptions, Queued, Report, Verdict, WriteQueue};
