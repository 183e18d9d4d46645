//! What changes of members need of consensus: what this node knows of the members, and the few steps that change them.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    time::Duration,
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use helve_proto::peer::v1::{HelloRequest, NodeRecord};
use openraft::{
    ChangeMembers,
    async_runtime::watch::WatchReceiver as _,
    errors::{ChangeMembershipError, ClientWriteError, RaftError},
    raft::Precondition,
};
use tokio::time::timeout;

use super::{Consensus, Leading, MemberSet, Stopped, overview::Overview, types::NodeInfo};

/// How long a member may take to say how it was started.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A group of nodes that agree on one log, as changes of its members need it. Cheap to clone.
pub trait Group: Clone + Send + Sync + 'static {
    /// This node's id.
    fn own_id(&self) -> u64;

    /// The leader, as this node knows.
    fn leading(&self) -> Leading;

    /// Waits until this condition on leadership holds.
    ///
    /// # Errors
    /// If consensus stops first.
    fn wait_leading(
        &self,
        condition: impl Fn(&Leading) -> bool + Send + Sync,
    ) -> impl Future<Output = Result<Leading, Stopped>> + Send;

    /// This node's progress, and on the leader that of the others.
    fn overview(&self) -> Overview;

    /// Yields whenever the overview has changed, and ends with consensus. The first item may come at once.
    fn changes(&self) -> BoxStream<'static, ()>;

    /// The members, as this node's log has them, committed or not.
    fn members(&self) -> MemberSet;

    /// Whether this member says that it was started with `--learner`; `None` if it does not answer.
    fn is_started_as_learner(&self, id: u64) -> impl Future<Output = Option<bool>> + Send;

    /// Proposes one edit of the members, and waits until it is committed.
    ///
    /// # Errors
    /// See [`NotCommitted`].
    fn edit(&self, edit: MembershipEdit) -> impl Future<Output = Result<(), NotCommitted>> + Send;

    /// Asks this member to lead. It does so a moment later, or not at all.
    ///
    /// # Errors
    /// If consensus stopped.
    fn hand_over(&self, to: u64) -> impl Future<Output = Result<(), Stopped>> + Send;
}

/// One edit of the members.
#[derive(Debug, Clone)]
pub enum MembershipEdit {
    /// This node becomes a member that does not vote.
    AddLearner(u64, NodeRecord),
    /// This member, which does not vote, is a member no more.
    RemoveLearner(u64),
    /// These members vote, by one joint change. Those that vote no more are members no more. Refused if there are other members by
    /// now than `known`.
    SetVoters {
        /// All that vote then.
        voters: BTreeSet<u64>,
        /// The members that this was decided on.
        known: MemberSet,
    },
    /// A change that is half done ends.
    LeaveJoint,
    /// This member is recorded so. Refused if there are other members by now than `known`.
    SetRecord {
        /// Its id.
        id: u64,
        /// What is recorded.
        record: NodeRecord,
        /// The members that this was decided on.
        known: MemberSet,
    },
}

/// Why an edit of the members was not committed, in openraft's words.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotCommitted {
    /// This node does not lead.
    #[error("{0}")]
    NotLeading(String),
    /// Another edit is not committed yet.
    #[error("{0}")]
    Busy(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl Group for Consensus {
    fn own_id(&self) -> u64 {
        *self.raft.node_id()
    }

    fn leading(&self) -> Leading {
        self.leading()
    }

    async fn wait_leading(
        &self,
        condition: impl Fn(&Leading) -> bool + Send + Sync,
    ) -> Result<Leading, Stopped> {
        self.wait_leading(condition).await
    }

    fn overview(&self) -> Overview {
        self.overview()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        stream::unfold(self.raft.metrics(), |mut metrics| async move {
            metrics.changed().await.ok().map(|()| ((), metrics))
        })
        .boxed()
    }

    fn members(&self) -> MemberSet {
        self.members()
    }

    async fn is_started_as_learner(&self, id: u64) -> Option<bool> {
        let uuid = self.members().member(id)?.uuid.clone();
        let (own, address) = (self.identity().record(), self.peer_address(id)?);
        let request = HelloRequest {
            seat: own.seat,
            uuid: own.uuid.clone(),
            cluster_id: self.identity().cluster_id().as_ref().clone(),
            ..HelloRequest::default()
        };
        let mut client = self.identity().dialler().client(&address);
        let reply = timeout(ANSWER_LIMIT, client.hello(request)).await;
        let reply = reply.ok()?.ok()?.into_inner();
        (reply.uuid == uuid).then_some(reply.learner)
    }

    async fn edit(&self, edit: MembershipEdit) -> Result<(), NotCommitted> {
        let raft = &self.raft;
        let unless_changed = |known: &MemberSet| {
            let last_membership_log_id = known.set_by();
            [Precondition::LastMembershipLogId {
                last_membership_log_id,
            }]
        };
        let edited = match edit {
            MembershipEdit::AddLearner(id, record) => {
                let added = raft.add_learner(id, NodeInfo(record), false).await;
                added.map(|_| ())
            }
            MembershipEdit::RemoveLearner(id) => {
                let change = ChangeMembers::RemoveNodes(BTreeSet::from([id]));
                raft.change_membership(change, false).await.map(|_| ())
            }
            MembershipEdit::SetVoters { voters, known } => {
                let change = ChangeMembers::ReplaceAllVoters(voters);
                let changed = raft.change_membership_if(change, false, unless_changed(&known));
                changed.await.map(|_| ())
            }
            MembershipEdit::LeaveJoint => {
                let change = ChangeMembers::AddVoterIds(BTreeSet::new());
                raft.change_membership(change, false).await.map(|_| ())
            }
            MembershipEdit::SetRecord { id, record, known } => {
                let change = ChangeMembers::SetNodes(BTreeMap::from([(id, NodeInfo(record))]));
                let changed = raft.change_membership_if(change, true, unless_changed(&known));
                changed.await.map(|_| ())
            }
        };
        edited.map_err(|error| {
            let said = error.to_string();
            match error {
                RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => {
                    NotCommitted::NotLeading(said)
                }
                RaftError::APIError(ClientWriteError::ChangeMembershipError(
                    ChangeMembershipError::InProgress(_),
                )) => NotCommitted::Busy(said),
                _ => NotCommitted::Failed(said),
            }
        })
    }

    async fn hand_over(&self, to: u64) -> Result<(), Stopped> {
        let asked = self.raft.trigger().transfer_leader(to).await;
        asked.map_err(Stopped::by)
    }
}
