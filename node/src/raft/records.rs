//! What the membership records of each member: where it is reached, and which feature level its
//! version supports. A member that came back with something else is recorded again, by a change
//! that changes no voter.

use std::collections::{BTreeMap, BTreeSet};

use helve_proto::peer::v1::NodeRecord;
use openraft::{ChangeMembers, Precondition, async_runtime::watch::WatchReceiver as _};

use super::{Consensus, bootstrap::hello, types::NodeInfo};

/// A node whose version does not support the cluster's feature level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cluster is at feature level {needed}, and this node's version supports {supported}: start a newer version of helve"
)]
pub struct TooOld {
    /// The cluster's level.
    pub needed: u32,
    /// The newest that the node supports.
    pub supported: u32,
}

/// Why a member was not recorded again. Asking again later does no harm.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    /// Only the leader changes the membership.
    #[error("this node does not lead")]
    NotLeading,
    /// The membership has no such node.
    #[error("node {0} is no member under this uuid and seat")]
    NoMember(u64),
    /// It could not apply what the cluster's log may hold.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// Another node, or none, answers at the peer address.
    #[error("the node does not answer at its peer address {0}: correct --peers on it")]
    NotThere(String),
    /// Another change is under way, or no quorum took this one.
    #[error("the membership change was not committed: {0}")]
    NotCommitted(String),
}

impl Consensus {
    /// The replicated feature level, as far as this node has applied the log.
    #[must_use]
    pub fn feature_level(&self) -> u32 {
        self.progress().feature_level
    }

    /// Looks whether a node could apply whatever the cluster's log may hold.
    ///
    /// # Errors
    /// If its version is too old.
    pub fn check_level(&self, node: &NodeRecord) -> Result<(), TooOld> {
        let needed = self.feature_level();
        if node.feature_level < needed {
            return Err(TooOld {
                needed,
                supported: node.feature_level,
            });
        }
        Ok(())
    }

    /// The feature level that every member supports, as the membership records them.
    #[must_use]
    pub fn common_level(&self) -> u32 {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        let levels = metrics
            .membership_config
            .nodes()
            .map(|(_, node)| node.0.feature_level);
        levels.min().unwrap_or_default()
    }

    /// The voters of the membership; two sets of them while a change is half done.
    #[must_use]
    pub fn voter_sets(&self) -> Vec<BTreeSet<u64>> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.get_joint_config().clone()
    }

    /// Where a member's peer port is reached.
    #[must_use]
    pub fn peer_address(&self, id: u64) -> Option<String> {
        let record = self.member(id)?;
        let address = self.book.address(id, &record.uuid);
        Some(address.unwrap_or(record.peer_address))
    }

    /// The seats of all members, and where their peer ports are.
    #[must_use]
    pub fn member_addresses(&self) -> BTreeMap<u64, String> {
        let members = self.overview().members.into_iter();
        members
            .map(|member| (member.record.seat, member.record.peer_address))
            .collect()
    }

    /// The membership knows this node as it is now: its seat, addresses and feature level. True as well if it is no member.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        let own = self.identity.record();
        self.member_by_uuid(&own.uuid)
            .and_then(|(id, _)| self.member(id))
            .is_none_or(|known| known == *own)
    }

    /// The membership has this node as a newer version than it is. Until that is corrected, the cluster's level may rise above it.
    #[must_use]
    pub fn is_overrated(&self) -> bool {
        let own = self.identity.record();
        self.member_by_uuid(&own.uuid)
            .and_then(|(id, _)| self.member(id))
            .is_some_and(|known| known.feature_level > own.feature_level)
    }

    /// Records a member as it is now. It is asked at its new address first: one that is wrong would cut it off.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub async fn record_member(&self, id: u64, node: NodeRecord) -> Result<(), RecordError> {
        if !self.leading().here {
            return Err(RecordError::NotLeading);
        }
        self.check_level(&node)?;
        let known = self
            .member(id)
            .filter(|known| known.uuid == node.uuid && known.seat == node.seat)
            .ok_or(RecordError::NoMember(id))?;
        if known.peer_address != node.peer_address {
            let answer = hello(&self.identity, &node.peer_address).await;
            if answer.is_none_or(|answer| answer.uuid != node.uuid) {
                return Err(RecordError::NotThere(node.peer_address));
            }
            // From here on it is replicated to, which the change below may need.
            self.book.note_met(&node.uuid, &node.peer_address);
        }
        self.set_record(id, node).await
    }

    async fn set_record(&self, id: u64, node: NodeRecord) -> Result<(), RecordError> {
        let (known, last, is_joint) = {
            let metrics = self.raft.server_metrics();
            let metrics = metrics.borrow_watched();
            let membership = &metrics.membership_config;
            (
                membership.get_node(&id).cloned(),
                *membership.log_id(),
                membership.get_joint_config().len() > 1,
            )
        };
        let known = known.filter(|known| known.0.uuid == node.uuid);
        if known.ok_or(RecordError::NoMember(id))?.0 == node {
            return Ok(());
        }
        if is_joint {
            let busy = "another change of members is under way".to_owned();
            return Err(RecordError::NotCommitted(busy));
        }
        tracing::info!(
            id,
            seat = node.seat,
            client_address = node.client_address,
            peer_address = node.peer_address,
            feature_level = node.feature_level,
            "recording a member anew"
        );
        let change = ChangeMembers::SetNodes(BTreeMap::from([(id, NodeInfo(node))]));
        // A member that was removed meanwhile must not come back by this.
        let unchanged = Precondition::LastMembershipLogId {
            last_membership_log_id: last,
        };
        let changed = self.raft.change_membership_if(change, true, [unchanged]);
        changed
            .await
            .map(|_| ())
            .map_err(|e| RecordError::NotCommitted(e.to_string()))
    }
}
