//! The change of members that this leader carries out, one at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_proto::peer::v1::NodeRecord;
use tokio::sync::watch;

use super::{
    change::{Change, Stage},
    error::MembershipError,
};

/// A node that asked for the seat that a change is about.
#[derive(Debug, Clone)]
pub(super) struct Applicant {
    pub(super) id: u64,
    pub(super) record: NodeRecord,
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
pub(super) enum Begun {
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

    /// The address that a node with this seat must have, if what is under way waits for such a node.
    pub(super) fn wanted_at(&self, seat: u64) -> Option<String> {
        let current = self.current();
        let (wanted, address) = current.as_ref()?.change.wanted()?;
        (wanted == seat).then(|| address.to_owned())
    }

    /// Hands a node that runs under an id of its own to the change that waits for it.
    pub(super) fn offer(&self, applicant: Applicant) {
        if let Some(under_way) = self.current().as_ref() {
            let waits = matches!(*under_way.stage.borrow(), Stage::Waiting);
            if waits {
                under_way.applicant.send_replace(Some(applicant));
            }
        }
    }

    pub(super) fn begin(self: &Arc<Self>, change: Change) -> Result<Begun, MembershipError> {
        let mut current = self.current();
        if let Some(under_way) = current.as_ref() {
            if under_way.change == change {
                return Ok(Begun::Same(under_way.stage.subscribe()));
            }
            return Err(MembershipError::Busy(under_way.change.to_string()));
        }
        let first = match change {
            Change::Add { .. } | Change::Replace { .. } => Stage::Waiting,
            Change::Promote { id } => Stage::CatchingUp {
                id,
                entries_to_go: 0,
            },
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
pub(super) struct Held {
    changes: Arc<Changes>,
    under_way: Arc<UnderWay>,
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.changes.current() = None;
    }
}

impl Held {
    pub(super) fn change(&self) -> &Change {
        &self.under_way.change
    }

    pub(super) fn stages(&self) -> watch::Receiver<Stage> {
        self.under_way.stage.subscribe()
    }

    /// Waits until a node asks for the seat; `None` once no caller waits for that any more.
    pub(super) async fn applicant(&self) -> Option<Applicant> {
        let mut applicants = self.under_way.applicant.subscribe();
        tokio::select! {
            applicant = applicants.wait_for(Option::is_some) => applicant.ok()?.clone(),
            () = self.under_way.stage.closed() => None,
        }
    }

    pub(super) fn reached(&self, stage: Stage) {
        self.under_way.stage.send_replace(stage);
    }

    /// Gives the right back, and then says how it ended: a caller that learns of it may begin the
    /// next change.
    pub(super) fn end(self, outcome: Result<u64, MembershipError>) {
        let under_way = Arc::clone(&self.under_way);
        drop(self);
        under_way.stage.send_replace(match outcome {
            Ok(id) => Stage::Done { id },
            Err(why) => Stage::Failed(why),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::change::Risk;

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
