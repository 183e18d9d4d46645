//! Starts Helve nodes as processes of their own, breaks them, and looks at them from outside, as their users do.
//!
//! - [`cluster`]: some nodes with their directories; [`process`]: one of them; [`address`]: where they listen.
//! - [`members`]: changes of a cluster's members.
//! - [`caller`]: one node's gRPC services, without the client crate's retries, so that a test sees what a node says; [`token`]: what
//!   it shows.
//! - [`fault`]: what breaks a cluster from outside.
//! - [`failpoints`]: what breaks one node in the middle of something. [`digest`]: whether all nodes hold the same rows.
//! - [`attack`]: what hostile callers do, as functions of how much they do.
//! - [`ledger`]: what callers were told, to compare with what is there. [`on_disk`]: what the files of a node hold.
//! - [`history`]: what callers asked and were told, and when; [`judge`]: whether that contradicts what Helve promises, by the
//!   [`model`].
//! - [`workload`]: what callers do while a run breaks things.
//! - [`attack`]: what hostile callers do.
//! - [`wait`]: the one way to wait. [`mod@promise`]: the difference between a broken promise and a broken test.

pub mod address;
pub mod archive;
pub mod attack;
pub mod caller;
pub mod certificates;
pub mod cluster;
pub mod digest;
pub mod failpoints;
pub mod fault;
pub mod history;
pub mod judge;
pub mod ledger;
pub mod members;
pub mod model;
pub mod on_disk;
pub mod process;
pub mod promise;
pub mod token;
mod untyped;
pub mod wait;
pub mod workload;

/// Compiles README's examples.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// Compiles the examples of the page on MCP.
#[cfg(doctest)]
#[doc = include_str!("../../docs/mcp.md")]
pub struct Mcp;
