//! What one line of the audit log is about: who did what to which records, and how it ended.

use std::net::SocketAddr;

use helve_proto::operations::Least;
use serde::Serialize;

/// What kind of call it is. An operator chooses which of them are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// It reads records.
    Read,
    /// It changes records, or opens a replay session to do so.
    Write,
    /// It shows or changes the cluster itself: members, leader, snapshots, tokens.
    Admin,
}

impl Class {
    /// The class of a call that asks this of its caller.
    #[must_use]
    pub fn of(least: Least) -> Self {
        match least {
            Least::Open | Least::Token | Least::Reader => Self::Read,
            Least::Writer => Self::Write,
            Least::Manager | Least::Operator => Self::Admin,
        }
    }
}

/// One record that a call named, or a range of them. What a call does not name is absent. Values are never here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Target {
    /// The store of a handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Owner of the record; empty where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// A handle's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A key of the state tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How the keys of a list begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// What an operator's call was about, such as a change of members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// One call, as it ended. It never holds a value or a token.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// The wall clock of this node when the call ended, in milliseconds since the Unix epoch; set by [`Audit`](super::Audit). The line
    /// says it in front of all else.
    #[serde(skip)]
    pub wall_ms: u64,
    /// What kind of call it is.
    pub class: Class,
    /// Its name, as in the metrics.
    pub operation: &'static str,
    /// The tenant that the credential names; empty if there is none that holds.
    pub tenant: String,
    /// The caller that the credential names; empty if there is none that holds.
    pub principal: String,
    /// An operator made the call: its lines are charged to all operators together, and to no tenant.
    #[serde(skip)]
    pub by_operator: bool,
    /// Where the call came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<SocketAddr>,
    /// What it named, in its own order, and behind that the ids that it minted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// How many more it named: an event has room for the largest call that is carried out, and a refused one may name more.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_targets: u64,
    /// `OK`, the reason of the refusal, or `CANCELLED` if the caller went away.
    pub outcome: &'static str,
    /// In which state the record was found, or what was done to it, where the answer says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// The revision of the one record that was read or written; 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub revision: u64,
    /// The log index of the view that was read, or of the write itself; 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub index: u64,
    /// The replicated clock of that view, in milliseconds since the Unix epoch; 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub clock_ms: u64,
}

/// The outcome of a call whose caller went away before its answer: it may have taken effect.
pub(super) const CANCELLED: &str = "CANCELLED";

/// The owner of operators' lines. No tenant has this name.
pub(super) const OPERATORS: &str = "*operators";

/// The outcomes that are recorded whatever classes are chosen.
const DENIED: [&str; 2] = ["UNAUTHENTICATED", "DENIED"];

impl Event {
    /// A call of which nothing more is known: no principal, no target, and its caller went away.
    #[must_use]
    pub fn of(class: Class, operation: &'static str) -> Self {
        Self {
            wall_ms: 0,
            class,
            operation,
            tenant: String::new(),
            principal: String::new(),
            by_operator: false,
            peer: None,
            targets: Vec::new(),
            more_targets: 0,
            outcome: CANCELLED,
            status: None,
            revision: 0,
            index: 0,
            clock_ms: 0,
        }
    }

    /// Whom its line is charged to: its tenant, or all operators together.
    pub(super) fn owner(&self) -> &str {
        match self.by_operator {
            true => OPERATORS,
            false => &self.tenant,
        }
    }

    /// Whether somebody was turned away for who they are.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        DENIED.contains(&self.outcome)
    }
}

// serde asks with a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
