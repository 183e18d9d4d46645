//! How far a node has come, and in which run.

use std::fmt;

use helve_proto::peer::v1 as proto;

/// One process of a node, from its start to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// Counts the starts on a data directory, from 1; 0: unknown, of a version that does not count them.
    pub number: u64,
    /// Tells two runs with the same number apart.
    pub nonce: u64,
}

impl Run {
    pub(super) fn is_known(self) -> bool {
        self.number != 0
    }

    pub(crate) fn to_proto(self) -> proto::Run {
        proto::Run {
            number: self.number,
            nonce: self.nonce,
        }
    }

    pub(crate) fn from_proto(run: Option<proto::Run>) -> Self {
        run.map_or_else(Self::default, |run| Self {
            number: run.number,
            nonce: run.nonce,
        })
    }
}

/// What a node holds. Terms count first: within one, a log only grows, while a new term's leader may shorten it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The newest term that it voted in, or followed a leader of.
    pub term: u64,
    /// Term and index of the last entry; `None` if it has none.
    pub last: Option<(u64, u64)>,
}

impl Position {
    /// It holds what this leader's log holds up to this index.
    pub(super) fn has_entry_of(self, term: u64, index: u64) -> bool {
        self.term == term && self.last.is_some_and(|(_, last)| last >= index)
    }

    pub(crate) fn to_proto(self) -> proto::Position {
        proto::Position {
            term: self.term,
            log_id: self.last.map(|(term, index)| proto::LogId { term, index }),
        }
    }

    pub(crate) fn from_proto(position: Option<proto::Position>) -> Self {
        position.map_or_else(Self::default, |position| Self {
            term: position.term,
            last: position.log_id.map(|id| (id.term, id.index)),
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some((_, index)) => write!(formatter, "entry {index} in term {}", self.term),
            None => write!(formatter, "a vote in term {}", self.term),
        }
    }
}
