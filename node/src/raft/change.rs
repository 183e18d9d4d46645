//! Changes of members: one at a time, carried out by the leader, and followed by the callers that
//! asked for them.
//!
//! A change outlives the call that began it, except while it waits for a node to ask for its seat:
//! until then it has changed nothing, and it ends with its last follower. The leader keeps all this
//! in memory. What a leader that dies leaves behind is in the membership, a learner or a joint
//! configuration: the same call, made again on the next leader, continues from there.

mod admission;
mod carry_out;
mod catch_up;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use admission::Admission;
use helve_proto::peer::v1::NodeRecord;
use tokio::sync::watch;

use super::{Consensus, membership::MembershipError};

/// A change of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new node joins.
    Add {
        /// Its seat.
        seat: u64,
        /// `HOST:PORT` for its peers.
        peer_address: String,
        /// Whether it shall vote.
        voting: Voting,
    },
    /// A member leaves.
    Remove {
        /// Its id.
        id: u64,
        /// Whether a loss of the quorum is accepted.
        risk: Risk,
    },
    /// A new node joins, and a member leaves in the same step.
    Replace {
        /// The id of the member that leaves.
        id: u64,
        /// The new node's seat.
        seat: u64,
        /// `HOST:PORT` for the new node's peers.
        peer_address: String,
    },
    /// A node without state takes the seat of a silent member, by itself.
    TakeOver {
        /// The new node's id.
        id: u64,
        /// Its seat.
        seat: u64,
    },
}

/// Whether a new member shall vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voting {
    /// It shall.
    Voter,
    /// It only receives entries.
    Learner,
}

/// Whether a removal may leave too few voters that answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// It is refused then.
    Refused,
    /// The operator knows that the silent ones will come back.
    Accepted,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add {
                seat, peer_address, ..
            } => write!(f, "adding seat {seat} at {peer_address}"),
            Self::Remove { id, .. } => write!(f, "removing node {id}"),
            Self::Replace {
                id,
                seat,
                peer_address,
            } => write!(f, "replacing node {id} by seat {seat} at {peer_address}"),
            Self::TakeOver { id, seat } => write!(f, "node {id} taking seat {seat} over"),
        }
    }
}

impl Change {
    /// The seat and the address that a node may ask for while this change waits.
    fn wanted(&self) -> Option<(u64, &str)> {
        match self {
            Self::Add {
                seat, peer_address, ..
            }
            | Self::Replace {
                seat, peer_address, ..
            } => Some((*seat, peer_address)),
            Self::Remove { .. } | Self::TakeOver { .. } => None,
        }
    }
}

/// How far a change has come.
#[derive(Debug, Clone)]
pub enum Stage {
    /// No node has asked for the seat yet; nothing has been changed.
    Waiting,
    /// The new node is a learner, and lacks this many entries.
    CatchingUp {
        /// Its id.
        id: u64,
        /// Entries that it lacks.
        entries_to_go: u64,
    },
    /// The voters agree on the new membership.
    Committing,
    /// It is done.
    Done {
        /// The new node's id; of a removal, the removed one's.
        id: u64,
    },
    /// It ended otherwise.
    Failed(MembershipError),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting for the node to ask for its seat"),
            Self::CatchingUp { id, entries_to_go } => {
                write!(f, "node {id} catches up, {entries_to_go} entries to go")
            }
            Self::Committing => f.write_str("the voters agree on it"),
            Self::Done { id } => write!(f, "done, node {id}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

/// A node that asked for the seat that a change is about.
#[derive(Debug, Clone)]
struct Applicant {
    id: u64,
    record: NodeRecord,
}

/// The change of members that this leader carries out, if any.
#[derive(Debug, Default)]
pub(super) struct Changes {
    current: Mutex<Option<Arc<UnderWay>>>,
}

#[derive(Debug)]
struct UnderWay {
    change: Change,
    stage: watch::Sender<Stage>,
    applicant: watch::Sender<Option<Applicant>>,
}

/// The answer to a requested change.
enum Begun {
    New(Held),
    /// The very same change is under way already.
    Same(watch::Receiver<Stage>),
}

impl Changes {
    fn current(&self) -> MutexGuard<'_, Option<Arc<UnderWay>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is under way, in words.
    pub(super) fn describe(&self) -> Option<String> {
        let current = self.current();
        let under_way = current.as_ref()?;
        let stage = under_way.stage.borrow().to_string();
        Some(format!("{}: {stage}", under_way.change))
    }

    fn begin(self: &Arc<Self>, change: Change) -> Result<Begun, MembershipError> {
        let mut current = self.current();
        if let Some(under_way) = current.as_ref() {
            if under_way.change == change {
                return Ok(Begun::Same(under_way.stage.subscribe()));
            }
            return Err(MembershipError::Busy(under_way.change.to_string()));
        }
        let first = match change {
            Change::Add { .. } | Change::Replace { .. } => Stage::Waiting,
            Change::Remove { .. } | Change::TakeOver { .. } => Stage::Committing,
        };
        let under_way = Arc::new(UnderWay {
            change,
            stage: watch::Sender::new(first),
            applicant: watch::Sender::new(None),
        });
        *current = Some(Arc::clone(&under_way));
        Ok(Begun::New(Held {
            changes: Arc::clone(self),
            under_way,
        }))
    }
}

/// The right to change the members. Dropping it lets the next change begin.
struct Held {
    changes: Arc<Changes>,
    under_way: Arc<UnderWay>,
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.changes.current() = None;
    }
}

impl Held {
    fn reached(&self, stage: Stage) {
        self.under_way.stage.send_replace(stage);
    }

    /// Gives the right back, and then says how it ended: a caller that learns of it may begin the
    /// next change.
    fn end(self, outcome: Result<u64, MembershipError>) {
        let under_way = Arc::clone(&self.under_way);
        drop(self);
        under_way.stage.send_replace(match outcome {
            Ok(id) => Stage::Done { id },
            Err(why) => Stage::Failed(why),
        });
    }
}

impl Consensus {
    /// Begins a change of members, or follows the same one if it is under way. The last stage is [`Stage::Done`] or
    /// [`Stage::Failed`].
    ///
    /// # Errors
    /// If this node does not lead, another change is under way, or this one is refused; nothing was changed then.
    pub fn change(&self, change: Change) -> Result<watch::Receiver<Stage>, MembershipError> {
        if !self.leading().here {
            return Err(MembershipError::NotLeading);
        }
        let held = match self.changes.begin(change)? {
            Begun::Same(stages) => return Ok(stages),
            Begun::New(held) => held,
        };
        self.check(&held.under_way.change)?;
        let stages = held.under_way.stage.subscribe();
        let consensus = self.clone();
        tokio::spawn(async move {
            let outcome = consensus.carry_out(&held).await;
            let change = &held.under_way.change;
            match &outcome {
                Ok(id) => tracing::info!(id, "a change of members is done: {change}"),
                Err(why) => tracing::warn!(%why, "a change of members ended: {change}"),
            }
            held.end(outcome);
        });
        Ok(stages)
    }

    /// Gives a node that runs under `id` the seat of a silent member, and waits until it has it.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn take_over(&self, id: u64, record: NodeRecord) -> Result<(), MembershipError> {
        let change = Change::TakeOver {
            id,
            seat: record.seat,
        };
        let Begun::New(held) = self.changes.begin(change)? else {
            return Err(MembershipError::Busy("it takes its seat over".to_owned()));
        };
        if self.is_joint() {
            return Err(half_done());
        }
        let outcome = self.seat(&held, id, record).await;
        held.end(outcome.clone().map(|()| id));
        outcome
    }
}

fn half_done() -> MembershipError {
    MembershipError::Busy("one that a former leader left half done".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(id: u64) -> Change {
        Change::Remove {
            id,
            risk: Risk::Refused,
        }
    }

    #[test]
    fn one_change_at_a_time_and_the_same_one_is_followed() {
        let changes = Arc::new(Changes::default());
        let Ok(Begun::New(held)) = changes.begin(remove(3)) else {
            panic!("nothing was under way");
        };
        let Ok(Begun::Same(stages)) = changes.begin(remove(3)) else {
            panic!("the same one is under way");
        };
        assert!(matches!(
            changes.begin(remove(2)),
            Err(MembershipError::Busy(what)) if what == "removing node 3"
        ));
        assert!(changes.describe().is_some());
        held.end(Ok(3));
        assert!(matches!(*stages.borrow(), Stage::Done { id: 3 }));
        assert!(changes.describe().is_none());
        assert!(matches!(changes.begin(remove(2)), Ok(Begun::New(_))));
    }
}
