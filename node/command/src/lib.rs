//! The parts that `helve`'s commands are made of.
//!
//! The binary and the demo are separate crates, and the demo can be left out of a build. What the
//! commands of both need is here: the flags to reach a cluster ([`cluster`]) and to serve MCP
//! ([`mcp_server`]), addresses, durations, output, the exit status ([`ending`]), the log and
//! signals.
//! There is no command here, and nothing that only one of the two crates uses.

pub mod address;
pub mod cluster;
pub mod duration;
pub mod ending;
mod listed;
pub mod logging;
pub mod mcp_server;
pub mod output;
pub mod signals;
