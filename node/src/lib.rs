#![doc = include_str!("../ARCHITECTURE.md")]

pub mod cli;
pub mod config;
pub mod digest;
pub mod disk_watch;
pub mod failpoint;
pub mod forward;
pub mod leader_contact;
pub mod leadership;
pub mod limits;
pub mod metrics;
pub mod node;
mod own_session;
mod peer_channel;
pub mod peer_links;
pub mod propose;
pub mod raft;
pub mod read_index;
mod renewals;
mod retention;
pub mod runtime;
pub mod service;
pub mod stamp;
pub mod storage;
pub mod ticker;
pub mod upgrade;
pub mod vault;
