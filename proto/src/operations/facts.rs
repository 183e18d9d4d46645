//! What a row of the table of operations says.

use crate::command::v1::command::Operation;

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Its field in `Command`, and in `ExchangeCall` if a stream carries it; `None`: in neither.
    pub field: Option<&'static str>,
    /// The call; `None`: only nodes propose it.
    pub call: Option<CallFacts>,
    /// The command; `None`: nothing is appended to the log, or a command of another row.
    pub command: Option<CommandFacts>,
}

/// A call of the public services.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts {
    /// Its path in gRPC.
    pub path: &'static str,
    /// Who may make it.
    pub least: Least,
}

/// The least that a caller must have. Where it says token, a certificate does as well that was granted what a token would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Least {
    /// Nothing.
    Open,
    /// A token, whatever its role.
    Token,
    /// A token of the tenant that reads records.
    Reader,
    /// A token of the tenant that changes records.
    Writer,
    /// A token that manages tokens: of the tenant, or an operator's. The handler asks which.
    Manager,
    /// A token that manages the cluster.
    Operator,
}

/// A command of the log.
#[derive(Debug, Clone, Copy)]
pub struct CommandFacts {
    /// The lowest feature level that knows it; `None`: the level after the newest, which only builds for tests know.
    pub level: Option<u32>,
    /// What makes a repeat of it harmless.
    pub repeat: Repeat,
    /// What it is about.
    pub about: About,
    /// Whether it is admitted while a disk is below its reserve.
    pub low_disk: LowDisk,
    /// Whether it brings a value, which is sealed if the cluster seals.
    pub value: Value,
}

/// What makes a repeat of a command harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Its identity: a repeat gets the first outcome.
    Identity,
    /// Its identity, from the feature level on that mended administrative commands; below it has none.
    Administrative,
    /// What it does. It needs no identity.
    Itself,
}

/// What a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Handles and keys, for a caller alone: no node acts on it.
    Records,
    /// What nodes themselves act on, and must find when they hear of it: time, members, levels, data keys, tokens.
    Nodes,
}

/// Whether a command is admitted while a disk is below its reserve.
#[derive(Debug, Clone, Copy)]
pub enum LowDisk {
    /// It frees space, takes next to none, or nothing could be freed without it.
    Admitted,
    /// It takes space.
    Refused,
    /// It depends on the request.
    AdmittedIf(fn(&Operation) -> bool),
}

impl LowDisk {
    /// Whether it admits this operation, of whose row it is.
    #[must_use]
    pub fn admits(self, operation: &Operation) -> bool {
        match self {
            Self::Admitted => true,
            Self::Refused => false,
            Self::AdmittedIf(admits) => admits(operation),
        }
    }
}

/// Whether a command brings a value.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// One, be it empty.
    Brought,
    /// None.
    Absent,
    /// It depends on the request.
    BroughtIf(fn(&Operation) -> bool),
}

impl Value {
    /// Whether this operation, of whose row it is, brings one.
    #[must_use]
    pub fn is_brought(self, operation: &Operation) -> bool {
        match self {
            Self::Brought => true,
            Self::Absent => false,
            Self::BroughtIf(brings) => brings(operation),
        }
    }
}
