//! The suite that every Helve host and every state tool must pass.
//!
//! A [`Host`] says how to reach an implementation of the client's traits: a cluster, one node, or the state machine in
//! this process. A [`ToolHost`] does so for a [`StateTool`](helve_client::StateTool) alone, whatever store is behind
//! it. [`CASES`] and [`TOOL_CASES`] run one by one, in any order, on one host or on fresh ones:
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), helve_client::Error> {
//! use std::sync::Arc;
//! use helve_client::{Client, MemoryBuilder};
//! use helve_conformance::{CASES, Host};
//!
//! struct Memory(Client);
//! impl Host for Memory {
//!     fn client(&self, _node: usize) -> Client { self.0.clone() }
//!     fn own_client(&self) -> Client { MemoryBuilder::new().build().expect("it needs nothing") }
//! }
//!
//! let host = Arc::new(Memory(MemoryBuilder::new().build()?));
//! let case = CASES.iter().find(|case| case.name == "mcpkit::mint_and_get").expect("it is listed");
//! case.run(host).await
//! # }
//! ```
//!
//! # Errors
//! A case fails by panicking, or by the [`Error`](helve_client::Error) of a call that should have succeeded. No case
//! asserts how long something takes: it waits for conditions, and judges times by the clock in the replies.
//!
//! # Features
//! None. The suite covers handles, keys, guards, claims, transactions, replay, the patterns of state tools and client state.

mod bad_input;
mod cases;
mod claims;
mod client_state;
mod contention;
mod guards;
mod handles;
mod host;
mod lifetimes;
mod mcpkit;
mod owners;
mod pages;
mod patterns;
mod renewal;
mod replay;
mod setup;
mod state;
mod tool;
mod transact;
mod values;

pub use self::{
    cases::{CASES, Case, TOOL_CASES},
    host::Host,
    tool::{ToolCase, ToolHost},
};
