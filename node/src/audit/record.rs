//! What a line of the log can be: a call, or what became of the log itself.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{
    chain::{Head, Seal},
    event::Event,
    names::Ids,
};

/// The format of the lines. A reader refuses a higher one.
pub(super) const FORMAT: u32 = 1;

/// A line's content, but for its number and its hash.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Record<'a> {
    /// The first line of each file.
    Opened {
        format: u32,
        node: &'a str,
        seal: &'static str,
        ids: Ids,
        salt: &'a str,
        /// What the chain is of; absent: of calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        log: Option<&'static str>,
        /// The hash of the last line of the file before; zeros if there is none.
        prev: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        torn: Option<Torn>,
    },
    /// A node started and goes on with a file that is there.
    Resumed {
        ids: Ids,
        salt: &'a str,
        /// What stood behind the last whole line: a node was killed, or the machine lost power, in the middle of a line.
        #[serde(skip_serializing_if = "Option::is_none")]
        torn: Option<Torn>,
    },
    /// A call ended.
    Call(&'a Event),
    /// Calls that have no line of their own: a caller who is turned away again and again, or a tenant whose lines have no room.
    Counted {
        #[serde(skip_serializing_if = "Option::is_none")]
        peer: Option<IpAddr>,
        tenant: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        principal: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        operation: &'static str,
        outcome: &'static str,
        count: u64,
        /// They ended within so long before the line.
        within_ms: u64,
    },
    /// Calls that were carried out, or turned away, without a line: the operator chose to go on where no line can be written.
    Lost { calls: u64 },
    /// An old file was removed, since there were more than the operator keeps.
    Removed { file: &'a str },
    /// The node stopped in good order.
    Closed,
}

/// A line that was never finished. It stays in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Torn {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// What a line of the chain of calls that were turned away says in its first line.
pub(super) const DENIED: &str = "denied";

/// A record's part of a line.
pub(super) fn content(record: &Record<'_>) -> Vec<u8> {
    serde_json::to_vec(record).expect("numbers and text are JSON")
}

/// Writes a record's part as the next line of the chain.
pub(super) fn line(seal: &Seal, head: &mut Head, wall_ms: u64, content: &[u8]) -> Vec<u8> {
    let mut line = format!("{{\"seq\":{},\"wall_ms\":{wall_ms},", head.seq + 1).into_bytes();
    line.extend_from_slice(&content[1..content.len() - 1]);
    seal.end(head, &mut line);
    line
}

/// What a reader must know of a line to follow the chain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Facts {
    pub(super) seq: u64,
    pub(super) event: String,
    pub(super) format: Option<u32>,
    pub(super) seal: Option<String>,
    pub(super) log: Option<String>,
    pub(super) prev: Option<String>,
    pub(super) torn: Option<Torn>,
    /// Of a `lost` line.
    pub(super) calls: Option<u64>,
}

impl Facts {
    /// Of a line; `None` if it is none of ours.
    pub(super) fn of(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}
