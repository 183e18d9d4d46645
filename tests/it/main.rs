//! The integration tests, one binary. A test is named after the fact that it shows.

mod abuse;
mod access;
mod attacks;
mod audit;
mod backup;
mod bad_bytes;
mod bad_requests;
mod bad_starts;
mod bounds;
mod browser;
mod chromium;
mod claim_command;
mod claim_run;
mod claims;
mod cluster_time;
mod command_json;
mod command_line;
mod commands;
mod conformance;
mod console;
mod demo;
mod digest;
mod disk;
mod durable;
mod early_stops;
mod examples;
mod exchange;
mod failover;
#[cfg(feature = "planted")]
mod failpoints;
mod faults;
mod first_run;
mod flows;
mod hangups;
mod heartbeats;
mod http_abuse;
mod init;
mod java;
mod json;
mod key_ring;
mod lifetimes;
mod lists;
mod logs;
mod lowered;
mod mcp_metrics;
mod mcp_process;
mod membership;
mod memory;
mod older_disk;
mod openapi;
mod own_server;
mod partition;
mod peer_port;
mod planted;
mod probes;
mod reads;
mod recover;
mod removal;
mod replay;
mod request_state;
mod restart;
mod revisions;
mod rolling;
mod sealed;
mod short_deadlines;
mod slow_readers;
mod snapshot;
mod state_server;
mod strangers;
mod tidy;
mod tls;
mod tokens;
mod traces;
mod transfer;
mod two_clusters;
mod upgrade;
mod watch;
mod watch_command;

use std::path::PathBuf;

use helve_tests::{cluster::Setup, process};

/// The binary that the tests break: `helve`, with planted bugs to choose from if the feature is on.
fn binary() -> PathBuf {
    process::binary(env!("CARGO_BIN_EXE_helve-under-test"))
}

/// Number of nodes to start.
fn nodes(count: u64) -> Setup {
    Setup::new(binary(), count)
}
