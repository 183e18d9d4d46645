//! `helve mcp` as its clients meet it: replicas of the state tool's server on one store in memory, behind the balancer.

#![allow(clippy::unwrap_used)]

mod browsers;
mod callers;
mod confirmations;
mod exact;
#[path = "../flaky/mod.rs"]
mod flaky;
mod forms;
mod gates;
mod house;
mod legacy;
mod outages;
#[path = "../../../src/properties.rs"]
mod properties;
mod requests;
mod scopes;
mod task_listens;
mod tools;
mod wire;
