//! A leader for tests: its members are what edits make of them, and who answers is what the test says.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use helve_proto::peer::v1::NodeRecord;

use super::{
    Group, Leading, MemberSet, MembershipEdit, NotCommitted, Stopped,
    overview::{MemberProgress, Overview, Role},
    types::{CommittedLeaderId, LogId, Membership, NodeInfo, StoredMembership},
};

/// The leader's id.
const OWN: u64 = 1;
/// Longer than any member may be silent.
const LONG: Duration = Duration::from_secs(3600);

/// A group that node 1 leads, and that commits every edit at once. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FakeGroup(Arc<Mutex<State>>);

struct State {
    edits: u64,
    voters: BTreeSet<u64>,
    nodes: BTreeMap<u64, NodeRecord>,
    silent: BTreeSet<u64>,
    returning: BTreeSet<u64>,
}

/// What the membership records of the node with this id at this seat.
pub(crate) fn record(id: u64, seat: u64) -> NodeRecord {
    NodeRecord {
        uuid: format!("u-{id}"),
        seat,
        peer_address: format!("h:{seat}"),
        ..NodeRecord::default()
    }
}

impl FakeGroup {
    /// A group of these voters, each with its id as its seat.
    pub(crate) fn new(voters: impl IntoIterator<Item = u64>) -> Self {
        let voters: BTreeSet<u64> = voters.into_iter().collect();
        Self(Arc::new(Mutex::new(State {
            edits: 0,
            nodes: voters.iter().map(|id| (*id, record(*id, *id))).collect(),
            voters,
            silent: BTreeSet::new(),
            returning: BTreeSet::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node becomes a learner, with its id as its seat.
    pub(crate) fn add_learner(&self, id: u64) {
        self.state().nodes.insert(id, record(id, id));
    }

    /// This member has been silent for long.
    pub(crate) fn silence(&self, id: u64) {
        self.state().silent.insert(id);
    }

    /// This silent member answers again while another one is asked how it was started.
    pub(crate) fn return_meanwhile(&self, id: u64) {
        self.state().returning.insert(id);
    }
}

impl Group for FakeGroup {
    fn own_id(&self) -> u64 {
        OWN
    }

    fn leading(&self) -> Leading {
        Leading {
            term: 1,
            leader: Some(OWN),
            here: true,
        }
    }

    async fn wait_leading(
        &self,
        condition: impl Fn(&Leading) -> bool + Send + Sync,
    ) -> Result<Leading, Stopped> {
        let leading = self.leading();
        if condition(&leading) {
            return Ok(leading);
        }
        pending().await
    }

    fn overview(&self) -> Overview {
        let state = self.state();
        let member = |(id, record): (&u64, &NodeRecord)| {
            let is_silent = state.silent.contains(id);
            MemberProgress {
                id: *id,
                record: record.clone(),
                voter: state.voters.contains(id),
                matched: Some(1),
                silent_for: Some(if is_silent { LONG } else { Duration::ZERO }),
            }
        };
        Overview {
            role: Role::Leader,
            term: 1,
            leader_id: OWN,
            last_log: 1,
            committed: 1,
            applied: 1,
            snapshot: 0,
            purged: 0,
            members: state.nodes.iter().map(member).collect(),
            majority_silent_for: None,
            stopped: None,
            joint: false,
        }
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }

    fn members(&self) -> MemberSet {
        let state = self.state();
        let nodes: BTreeMap<u64, NodeInfo> = state
            .nodes
            .iter()
            .map(|(id, record)| (*id, NodeInfo(record.clone())))
            .collect();
        let membership = Membership::new(vec![state.voters.clone()], nodes);
        let membership = membership.expect("each voter has its record");
        let set_by = LogId {
            leader_id: CommittedLeaderId::new(1),
            index: state.edits,
        };
        MemberSet::new(Arc::new(StoredMembership::new(Some(set_by), membership)))
    }

    async fn is_started_as_learner(&self, id: u64) -> Option<bool> {
        let mut state = self.state();
        let returning = std::mem::take(&mut state.returning);
        state.silent.retain(|silent| !returning.contains(silent));
        state.nodes.contains_key(&id).then_some(false)
    }

    async fn edit(&self, edit: MembershipEdit) -> Result<(), NotCommitted> {
        let mut state = self.state();
        match edit {
            MembershipEdit::AddLearner(id, record) => {
                state.nodes.insert(id, record);
            }
            MembershipEdit::RemoveLearner(id) => {
                state.nodes.remove(&id);
            }
            MembershipEdit::SetVoters { voters, .. } => {
                let left: Vec<u64> = state.voters.difference(&voters).copied().collect();
                state.nodes.retain(|id, _| !left.contains(id));
                state.voters = voters;
            }
            MembershipEdit::LeaveJoint | MembershipEdit::SetRecord { .. } => {
                return Err(NotCommitted::Failed("no test needs it".to_owned()));
            }
        }
        state.edits += 1;
        Ok(())
    }

    async fn hand_over(&self, _to: u64) -> Result<(), Stopped> {
        Ok(())
    }
}
