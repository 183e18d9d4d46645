//! What can be done to the log.

use std::{io, sync::atomic::AtomicU64};

use helve_proto::peer::v1::{LogEntry, LogId, Vote};
use prost::Message;

use crate::metrics::Times;

/// Called on the writer's thread once an operation is durable. It must not block.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// A change of the log.
pub enum LogOp {
    /// Adds entries at the end.
    Append {
        /// They follow the last entry, and each other, without a gap.
        entries: Vec<LogEntry>,
        /// Called when they are durable.
        done: Done,
    },
    /// Replaces the vote.
    Vote {
        /// The new one.
        vote: Vote,
        /// Called when it is durable.
        done: Done,
    },
    /// Removes entries from the end.
    Truncate {
        /// The log ends before this index afterwards.
        end: u64,
    },
    /// Removes entries from the beginning, including this one, which may be beyond the end.
    Purge {
        /// The last one to go.
        upto: LogId,
    },
    /// Changes nothing.
    Barrier {
        /// Called when all that was sent before is durable.
        done: Done,
    },
}

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub struct LogStats {
    /// Syncs of the disk.
    pub syncs: AtomicU64,
    /// Entries written.
    pub entries: AtomicU64,
    /// Bytes of entries written.
    pub bytes: AtomicU64,
    /// Bytes of entries sent and not yet durable.
    pub queued_bytes: AtomicU64,
    /// How long each write with a sync took.
    pub sync_times: Times,
}

impl LogOp {
    /// The encoded size of its entries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Append { entries, .. } => entries.iter().map(Message::encoded_len).sum(),
            Self::Vote { .. }
            | Self::Truncate { .. }
            | Self::Purge { .. }
            | Self::Barrier { .. } => 0,
        }
    }
}
