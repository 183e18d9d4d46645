#![doc = include_str!("../ARCHITECTURE.md")]

pub mod audit;
pub mod bounds;
pub mod cli;
mod complaint;
pub mod config;
pub mod connections;
pub mod digest;
pub mod disk_watch;
mod excerpt;
pub mod failpoint;
pub mod forward;
pub mod leader_contact;
pub mod leadership;
pub mod limits;
mod memory;
pub mod metrics;
pub mod node;
mod own_session;
pub mod peer_channel;
pub mod peer_links;
#[cfg(test)]
mod properties;
pub mod propose;
pub mod raft;
pub mod read_index;
mod renewals;
mod retention;
pub mod runtime;
pub mod service;
pub mod shares;
pub mod stamp;
pub mod storage;
pub mod ticker;
pub mod tls;
pub mod upgrade;
pub mod vault;
