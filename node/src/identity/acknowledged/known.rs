//! What is known of one node, and what a run of it is held against.

use std::cmp::Ordering;

use helve_proto::peer::v1::Acknowledged as Told;

use super::{Position, Run};

/// What is known of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) run: Run,
    /// The newest that this run acknowledged.
    pub(super) position: Position,
    /// The newest that earlier runs acknowledged.
    pub(super) before: Option<Position>,
}

/// A node's disk lacks what the node acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutBack {
    /// The disk holds less than an earlier run acknowledged.
    #[error("its disk holds {began}, but it has acknowledged {acknowledged}")]
    Behind {
        /// What the disk held when the run began.
        began: Position,
        /// What the node acknowledged before.
        acknowledged: Position,
    },
    /// The disk was started again under a number that it had used up, or a copy of the directory was
    /// started beside it.
    #[error(
        "its disk counts {number} starts, and another start of this node had the number {known}"
    )]
    Restarted {
        /// The run's number.
        number: u64,
        /// The highest number known.
        known: u64,
    },
}

impl Known {
    pub(super) fn from_proto(told: &Told) -> Self {
        Self {
            run: Run::from_proto(told.run),
            position: Position::from_proto(told.position),
            before: told.before.map(|before| Position::from_proto(Some(before))),
        }
    }

    pub(super) fn merged(self, told: Self) -> Self {
        let before = self.before.max(told.before);
        match told.run.number.cmp(&self.run.number) {
            Ordering::Greater => Self {
                before: before.max(Some(self.position)),
                ..told
            },
            Ordering::Less => Self {
                before: before.max(Some(told.position)),
                ..self
            },
            Ordering::Equal if told.run == self.run => Self {
                position: self.position.max(told.position),
                before,
                ..self
            },
            // Two runs with one number: the first that was heard of is no copy.
            Ordering::Equal => Self { before, ..self },
        }
    }

    pub(super) fn judge(self, run: Run, began: Position) -> Result<(), PutBack> {
        if !run.is_known() {
            return Ok(());
        }
        if run != self.run && run.number <= self.run.number {
            return Err(PutBack::Restarted {
                number: run.number,
                known: self.run.number,
            });
        }
        let earlier = if run == self.run {
            self.before
        } else {
            self.before.max(Some(self.position))
        };
        match earlier.filter(|earlier| began < *earlier) {
            Some(acknowledged) => Err(PutBack::Behind {
                began,
                acknowledged,
            }),
            None => Ok(()),
        }
    }
}
