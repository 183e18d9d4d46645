//! What the membership records of each member: where it is reached, and which feature level its
//! version supports. A member that came back with something else is recorded again, by a change
//! that changes no voter.

use std::collections::BTreeMap;

use helve_proto::peer::v1::NodeRecord;

use super::hello::{hello, hello_all};
use crate::raft::{Consensus, Group as _, MemberSet, MembershipEdit};

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

/// Looks whether a node could apply whatever the cluster's log may hold.
///
/// # Errors
/// If its version is too old.
pub fn check_level(consensus: &Consensus, node: &NodeRecord) -> Result<(), TooOld> {
    let needed = consensus.applied().feature_level();
    if node.feature_level < needed {
        return Err(TooOld {
            needed,
            supported: node.feature_level,
        });
    }
    Ok(())
}

/// The seats of all members, and where their peer ports are.
#[must_use]
pub fn member_addresses(consensus: &Consensus) -> BTreeMap<u64, String> {
    let members = consensus.overview().members.into_iter();
    members
        .map(|member| (member.record.seat, member.record.peer_address))
        .collect()
}

/// The membership knows this node as it is now: its seat, addresses and feature level. True as well if it is no member.
#[must_use]
pub fn is_recorded(consensus: &Consensus) -> bool {
    is_recorded_in(&consensus.members(), &own(consensus))
}

/// The same of the members that are known to be committed: no leader takes it back.
#[must_use]
pub fn is_committed(consensus: &Consensus) -> bool {
    is_recorded(consensus) && is_recorded_in(&consensus.committed_members(), &own(consensus))
}

fn is_recorded_in(members: &MemberSet, own: &NodeRecord) -> bool {
    let known = members.by_uuid(&own.uuid);
    known.is_none_or(|(_, known)| known == own)
}

/// What the membership is to record of this node. While the node holds the cluster at its level, that is the level that it supports as
/// far as the others know: so no leader raises it, of whatever version.
#[must_use]
pub fn own(consensus: &Consensus) -> NodeRecord {
    let own = consensus.identity().record().clone();
    let now = consensus.applied().feature_level();
    NodeRecord {
        feature_level: consensus.level_hold().offered(own.feature_level, now),
        ..own
    }
}

/// The lowest level that the other members which answer want to be recorded with; `None` if none answers. A record may still be that of
/// the moment before a hold.
pub async fn offered_by_others(consensus: &Consensus) -> Option<u32> {
    let replies = hello_all(consensus.identity(), &member_addresses(consensus)).await;
    let members = consensus.members();
    let is_member = |uuid: &str| members.by_uuid(uuid).is_some();
    let offered = replies
        .values()
        .filter(|reply| is_member(&reply.uuid))
        .map(|reply| reply.feature_level);
    offered.min()
}

/// The membership has this node as a newer version than it is, whatever level it holds the cluster at. Until that is corrected, the
/// cluster's level may rise above it.
#[must_use]
pub fn is_overrated(consensus: &Consensus) -> bool {
    let own = consensus.identity().record();
    let members = consensus.members();
    let known = members.by_uuid(&own.uuid);
    known.is_some_and(|(_, known)| known.feature_level > own.feature_level)
}

/// Records a member as it is now. It is asked at its new address first: one that is wrong would cut it off.
///
/// # Errors
/// See [`RecordError`].
pub async fn record_member(
    consensus: &Consensus,
    id: u64,
    node: NodeRecord,
) -> Result<(), RecordError> {
    if !consensus.leading().here {
        return Err(RecordError::NotLeading);
    }
    check_level(consensus, &node)?;
    let members = consensus.members();
    let known = members
        .member(id)
        .filter(|known| known.uuid == node.uuid && known.seat == node.seat)
        .ok_or(RecordError::NoMember(id))?;
    if known.peer_address != node.peer_address {
        let answer = hello(consensus.identity(), &node.peer_address).await;
        if answer.is_none_or(|answer| answer.uuid != node.uuid) {
            return Err(RecordError::NotThere(node.peer_address));
        }
        // From here on it is replicated to, which the change below may need.
        consensus.note_met(&node.uuid, &node.peer_address);
    }
    set_record(consensus, id, node).await
}

async fn set_record(consensus: &Consensus, id: u64, node: NodeRecord) -> Result<(), RecordError> {
    // A raise that was decided on the record before is in the log before the new one.
    let _order = consensus.level_hold().order().lock().await;
    let members = consensus.members();
    let known = members.member(id).filter(|known| known.uuid == node.uuid);
    if *known.ok_or(RecordError::NoMember(id))? == node {
        return Ok(());
    }
    if members.is_joint() {
        let busy = "another change of members is under way".to_owned();
        return Err(RecordError::NotCommitted(busy));
    }
    tracing::info!(
        id,
        seat = node.seat,
        client_address = node.client_address,
        peer_address = node.peer_address,
        feature_level = node.feature_level,
        "recording a member again"
    );
    let before = members.end();
    // A member that was removed meanwhile must not come back by this.
    let edit = MembershipEdit::SetRecord {
        id,
        record: node,
        known: members,
    };
    let recorded = consensus.edit(edit).await;
    recorded.map_err(|why| RecordError::NotCommitted(why.to_string()))?;
    // What consensus says of the members comes later than its reply.
    let shown = consensus.wait(|| (consensus.members().end() > before).then_some(()));
    shown
        .await
        .map_err(|stopped| RecordError::NotCommitted(stopped.to_string()))
}
