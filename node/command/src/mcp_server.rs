//! The flags of every command that serves MCP, and how it serves until a signal.

pub mod callers;
pub mod edge;
pub mod scraped;
pub mod serving;
pub mod token;
