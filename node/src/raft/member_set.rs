//! The members, as one entry of the log sets them.

use std::{collections::BTreeSet, sync::Arc};

use helve_proto::peer::v1::{MemberRole, NodeRecord};

use super::types::{LogId, StoredMembership};

/// The members, as one entry of the log sets them. It does not change: a later entry sets another one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MemberSet(Arc<StoredMembership>);

impl MemberSet {
    pub(super) fn new(stored: Arc<StoredMembership>) -> Self {
        Self(stored)
    }

    /// The entry that set it; `None` before a cluster's first.
    pub(super) fn set_by(&self) -> Option<LogId> {
        *self.0.log_id()
    }

    /// One past the index of the entry that set it, since a cluster's first has index 0; 0 for none.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.set_by().map_or(0, |id| id.index + 1)
    }

    /// What the membership records of this member.
    #[must_use]
    pub fn member(&self, id: u64) -> Option<&NodeRecord> {
        self.0.get_node(&id).map(|node| &node.0)
    }

    /// All members by their ids.
    pub fn members(&self) -> impl Iterator<Item = (u64, &NodeRecord)> {
        self.0.nodes().map(|(id, node)| (*id, &node.0))
    }

    /// The member with this uuid, and its id.
    #[must_use]
    pub fn by_uuid(&self, uuid: &str) -> Option<(u64, &NodeRecord)> {
        self.members().find(|(_, node)| node.uuid == uuid)
    }

    /// Whether the node with this uuid votes; [`MemberRole::Unspecified`] before a cluster's first entry.
    #[must_use]
    pub fn role(&self, uuid: &str) -> MemberRole {
        if self.set_by().is_none() {
            return MemberRole::Unspecified;
        }
        let voters = self.voters();
        match self.by_uuid(uuid) {
            Some((id, _)) if voters.contains(&id) => MemberRole::Voter,
            _ => MemberRole::NoVoter,
        }
    }

    /// The ids of the members that vote.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<u64> {
        self.0.voter_ids().collect()
    }

    /// The voters; two sets of them while a change is half done.
    #[must_use]
    pub fn voter_sets(&self) -> &[BTreeSet<u64>] {
        self.0.get_joint_config()
    }

    /// Two sets of voters must agree: a change of members is half done.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        self.voter_sets().len() > 1
    }

    /// The feature level that every member supports, as they are recorded; 0 without members.
    #[must_use]
    pub fn common_level(&self) -> u32 {
        let levels = self.members().map(|(_, node)| node.feature_level);
        levels.min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::{Group as _, fake_group::FakeGroup};

    #[test]
    fn a_role_is_that_of_the_membership() {
        let group = FakeGroup::new([1, 2]);
        group.add_learner(3);
        let members = group.members();
        assert_eq!(members.role("u-2"), MemberRole::Voter);
        assert_eq!(members.role("u-3"), MemberRole::NoVoter);
        assert_eq!(members.role("u-4"), MemberRole::NoVoter);
        let none = MemberSet::new(Arc::default());
        assert_eq!(none.role("u-1"), MemberRole::Unspecified);
    }
}
