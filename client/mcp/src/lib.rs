//! MCP on top of the Helve client.
//!
//! - [`cart`]: the example server. Its tools keep carts under handles, so that any replica answers any call.
//! - [`state`]: the state tool as a server, for any client in any language.
//! - [`serve`]: a server over streamable HTTP, without sessions; [`stdio`]: over standard input and output; [`legacy`]: for clients
//!   of older protocols, too, whose sessions stand in the cluster.
//! - [`allowed`]: the `Host` and `Origin` headers that a server accepts.
//! - [`bearer`]: an HTTP layer that verifies bearer tokens, and tells tools who calls.
//! - [`flow`]: cart flows as an MCP client runs them, the ledger of what it was told, and the verdict on both.
//! - [`boundary`]: seals the `requestState` that a server gives its clients, and opens what they bring back, or refuses it.
//! - [`storage`]: rmcp's storage hooks, so that what an SDK keeps in one process is every replica's.
//! - [`tasks`]: the tasks extension on the cluster, so that a task survives the replica that runs it.
//! - [`balancer`]: round robin over replicas, for demo, compose and tests.

pub mod allowed;
pub mod balancer;
pub mod bearer;
pub mod boundary;
mod browser;
mod callers;
pub mod cart;
pub mod flow;
pub mod legacy;
pub mod methods;
#[cfg(test)]
#[path = "../../src/properties.rs"]
mod properties;
pub mod reason;
mod schema;
pub mod serve;
pub mod state;
pub mod stdio;
pub mod storage;
pub mod tasks;
mod wire;

pub use callers::Callers;
