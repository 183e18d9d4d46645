//! A node of a Helve cluster: consensus over two RocksDBs, and gRPC services.
//!
//! - [`node::Node`] puts the parts together and takes them apart; [`config::Config`] is what it starts with.
//! - [`storage`] holds the replicated log and the rows; [`raft`] adapts openraft; [`membership`] decides who the members are.
//! - [`propose`] and [`forward`] carry commands to the leader; [`read_index`] makes reads linearizable on any node.
//! - [`service`] answers gRPC.
//!
//! `ARCHITECTURE.md` at the top of the repository says how they fit, and what must stay true.

#![expect(
    unreachable_pub,
    reason = "an item says what its own module offers; which modules the crate offers is said here"
)]

mod apply;
mod attempt;
pub mod audit;
pub mod backup;
pub mod bounds;
mod change_feed;
pub mod cluster_report;
mod cluster_status;
pub mod config;
mod connections;
mod digest;
mod disk_watch;
mod excerpt;
pub mod failpoint;
mod fair_queue;
mod forward;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod identity;
mod keyed_places;
mod leader_contact;
pub mod limits;
mod log_replay;
mod log_throttle;
mod membership;
mod metrics;
pub mod node;
mod peer_channel;
mod peer_links;
#[cfg(test)]
mod properties;
mod propose;
pub mod quantity;
mod raft;
mod read_index;
mod readiness;
mod refusal;
mod renewals;
mod retention;
mod runtime;
#[cfg(test)]
#[path = "../../client/src/seeds.rs"]
mod seeds;
mod service;
pub mod stamp;
pub mod storage;
mod ticker;
pub mod tls;
mod traces;
mod upgrade;
pub mod vault;

pub use helve_machine::level::{LEVELS, Level};

pub use self::metrics::process::registry as process_metrics;
