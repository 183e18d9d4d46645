//! One attempt to have a command executed.

use helve_proto::command::v1::{Command, Outcome};
use tokio::time::Instant;

use crate::traces::Trace;

/// A command, and until when somebody waits for it.
#[derive(Debug)]
pub struct Timed {
    /// The command. It passes through several queues, which would move all of it each time.
    pub command: Box<Command>,
    /// From then on it is not begun any more.
    pub deadline: Instant,
    /// Where spans of its way belong, if its trace is recorded.
    pub trace: Option<Trace>,
}

/// What became of one attempt to have a command executed.
#[derive(Debug)]
pub enum Attempt {
    /// It was executed, now or before.
    Outcome(Box<Outcome>),
    /// It was rejected before it was appended.
    Rejected(Rejection),
    /// It may or may not take effect.
    Unknown(String),
}

/// Why a command was not appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The node does not lead, or no leader is known.
    NotLeading,
    /// Too many commands are under way, for the bound of this name.
    Overloaded(&'static str),
    /// The leader's disk is below its reserve.
    DiskFull,
    /// The tenant's quota of writes a second is used up.
    WriteRate,
    /// The node is stopping.
    Stopping,
    /// The command must have a line in the leader's audit log, which cannot be written.
    Unrecorded,
}
