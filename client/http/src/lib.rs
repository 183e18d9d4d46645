//! HTTP/1.1 listeners: of the MCP servers, the balancer, and the node's port for probes.
//!
//! [`serve`] serves an axum [`Router`](axum::Router) within [`Bounds`], so that callers who send slowly,
//! send too much or read nothing cannot lock out others:
//!
//! - A connection that is not serving a request can be closed to make room for a new one. The one that
//!   has waited longest goes first, and one that has not sent a whole head before one that is kept alive.
//! - A head and a body must arrive in time, and a body at a minimum speed.
//! - The bytes of bodies that are held at once, and of answers that wait to be read, are bounded, in all
//!   and per address. A service reads a body with [`read_whole`], which holds what was charged, and
//!   charges what it makes of it with [`Room`].
//!
//! What is refused is a typed answer: 408, 413, 429 or 503, with `Retry-After` where a retry helps.
//!
//! [`Shutdown`] stops a listener in three steps, so that a request under way gets its answer: readiness
//! goes off, then the listener closes and requests finish, then what still streams is told to end.

mod address;
mod answer;
mod body;
mod bounds;
mod closing;
mod connection;
mod connection_state;
mod listener;
mod log_throttle;
mod outstanding;
mod pool;
mod refusal;
mod service;
mod shutdown;
mod site;
mod stall;
#[cfg(test)]
mod tests;
mod traffic;
mod whole;
mod wire;

pub use self::{
    address::Address,
    body::{NoRoom, Room},
    bounds::{Bounds, Drain, Progress},
    listener::{Open, Plain, serve},
    log_throttle::LogThrottle,
    refusal::Style,
    shutdown::{EndOnDrop, Shutdown},
    site::Port,
    stall::Stall,
    traffic::{Bound, Traffic},
    whole::{NotWhole, read_whole},
};
