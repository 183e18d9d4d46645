//! Who this node is to its peers, and which peer messages are meant for it.

pub mod acknowledged;
pub(crate) mod peer;
pub mod peer_problems;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use helve_proto::peer::v1::{NodeRecord, PeerHeader, Testimony};

use self::{acknowledged::AcknowledgedPositions, peer_problems::PeerProblems};
use crate::{limits::GROUP_ID, peer_channel::Dialler};

/// What a node that was taken out of its cluster tells everyone.
pub const REMOVED: &str = "this node was removed from the cluster and serves no more: stop it; to use its place again, start it \
     with an empty --data-dir, and let it in with `helve member add`";

/// A peer message that this node must not act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerRefusal {
    /// The sender belongs to another cluster.
    #[error("this node belongs to cluster {ours}, the sender to {theirs}: check --peers on both")]
    WrongCluster {
        /// This node's cluster.
        ours: String,
        /// The sender's.
        theirs: String,
    },
    /// The message was meant for another node, or for this seat's former node.
    #[error("this is node {ours}, the message was meant for {theirs}: check --peers on the sender")]
    WrongNode {
        /// This node's id and uuid.
        ours: String,
        /// Whom the sender meant.
        theirs: String,
    },
    /// The message is for a consensus group that this node does not serve.
    #[error("this node serves group {GROUP_ID} only, not {0}")]
    WrongGroup(u32),
    /// The membership knows another node under the sender's id: the sender's data is that of a node that was replaced.
    #[error(
        "node {id} is not {uuid}: the sender was replaced; empty its data directory, and it joins again"
    )]
    Impostor {
        /// The sender's id.
        id: u64,
        /// The sender's uuid.
        uuid: String,
    },
    /// The membership that this node leads knows no such node.
    #[error("node {id} ({uuid}) is no member: it was removed, or is not admitted yet")]
    NoMember {
        /// The sender's id.
        id: u64,
        /// The sender's uuid.
        uuid: String,
    },
    /// This node's disk lacks what the node has acknowledged.
    #[error("node {id} takes no part: {why}")]
    PutBack {
        /// This node's id.
        id: u64,
        /// How that shows, and what to do.
        why: String,
    },
    /// A message without a header.
    #[error("a peer message without a header")]
    NoHeader,
}

/// This node, as its peers know it.
#[derive(Debug)]
pub struct Identity {
    record: NodeRecord,
    node_id: AtomicU64,
    cluster_id: ArcSwap<String>,
    has_past: AtomicBool,
    peer_problems: PeerProblems,
    member_at: AtomicU64,
    is_removed: AtomicBool,
    waits_for: ArcSwap<String>,
    acknowledged: AcknowledgedPositions,
    former_cluster_id: String,
    dialler: Dialler,
    /// It was started with `--learner`: it gets no vote. A learner need not have been.
    pub is_learner: bool,
}

/// What a node says whose disk was put back to an older state, or runs twice: it cannot tell which.
fn put_back_advice(why: &str) -> String {
    format!(
        "this node's disk was put back to an older state, or a copy of its directory runs elsewhere: {why}; it could vote twice and \
         lose acknowledged writes, so it takes no part: stop the copy if there is one; then stop this node, and start it with an empty \
         --data-dir, and it joins again; if no majority is left without it, see `helve recover --help`"
    )
}

impl Identity {
    /// A node with this record; `node_id` 0 and an empty cluster id mean that it has none yet.
    #[must_use]
    pub fn new(record: NodeRecord, node_id: u64, cluster_id: String) -> Self {
        Self {
            record,
            node_id: AtomicU64::new(node_id),
            cluster_id: ArcSwap::new(Arc::new(cluster_id)),
            has_past: AtomicBool::new(false),
            peer_problems: PeerProblems::default(),
            member_at: AtomicU64::new(0),
            is_removed: AtomicBool::new(false),
            waits_for: ArcSwap::default(),
            acknowledged: AcknowledgedPositions::default(),
            former_cluster_id: String::new(),
            dialler: Dialler::default(),
            is_learner: false,
        }
    }

    /// It shows itself to peers in this way, instead of in plain text.
    #[must_use]
    pub fn dialling(mut self, dialler: Dialler) -> Self {
        self.dialler = dialler;
        self
    }

    /// It was recovered from this cluster into a new one; empty for none.
    #[must_use]
    pub fn recovered_from(mut self, cluster_id: String) -> Self {
        self.former_cluster_id = cluster_id;
        self
    }

    /// Whether this is the cluster that this node was recovered from: who belongs to it is left behind.
    #[must_use]
    pub fn was_of(&self, cluster_id: &str) -> bool {
        !self.former_cluster_id.is_empty() && self.former_cluster_id == cluster_id
    }

    /// How this node connects to its peers.
    #[must_use]
    pub fn dialler(&self) -> &Dialler {
        &self.dialler
    }

    /// One past the index of a committed membership that this node stood in; 0 before that.
    #[must_use]
    pub fn member_at(&self) -> u64 {
        self.member_at.load(Ordering::Acquire)
    }

    /// This node is in the committed membership whose entry is the one before this index.
    pub fn set_member_at(&self, index: u64) {
        self.member_at.store(index, Ordering::Release);
    }

    /// This node was a member, and is none any more. It must not come back under its id.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// From now on this node is removed.
    pub fn set_removed(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    /// What keeps this node from being a member yet; empty if nothing does.
    #[must_use]
    pub fn waits_for(&self) -> Arc<String> {
        self.waits_for.load_full()
    }

    /// Says what keeps this node from being a member yet, in its log too if that is new; empty if nothing does.
    pub fn set_waits_for(&self, what: &str) {
        if self.waits_for.load().as_str() != what {
            if !what.is_empty() {
                tracing::info!("no member yet: {what}");
            }
            self.waits_for.store(Arc::new(what.to_owned()));
        }
    }

    /// What this node knows of how far each node has come.
    #[must_use]
    pub fn acknowledged(&self) -> &AcknowledgedPositions {
        &self.acknowledged
    }

    /// Takes up what a peer of this node's cluster tells. Returns whether the peer's run is a new one: see
    /// [`AcknowledgedPositions::hear`].
    pub fn hear(&self, peer: &str, testimony: Option<&Testimony>) -> bool {
        testimony.is_some_and(|told| self.acknowledged.hear(&self.record.uuid, peer, told))
    }

    /// Why this node must take no part, and what to do, if its disk was put back to an older state.
    #[must_use]
    pub fn put_back(&self) -> Option<String> {
        self.acknowledged
            .put_back()
            .map(|why| put_back_advice(&why))
    }

    /// This node neither was removed nor lost what it acknowledged.
    #[must_use]
    pub fn may_take_part(&self) -> bool {
        !self.is_removed() && self.acknowledged.put_back().is_none()
    }

    /// How its peers take this node.
    #[must_use]
    pub fn peer_problems(&self) -> &PeerProblems {
        &self.peer_problems
    }

    /// This node holds something of a cluster, or was given an id there: it must never make another one.
    #[must_use]
    pub fn has_past(&self) -> bool {
        self.has_past.load(Ordering::Acquire)
    }

    /// From now on this node has a past.
    pub fn set_past(&self) {
        self.has_past.store(true, Ordering::Release);
    }

    /// What the membership records of this node.
    #[must_use]
    pub fn record(&self) -> &NodeRecord {
        &self.record
    }

    /// This node's id; 0 while it has none.
    #[must_use]
    pub fn node_id(&self) -> u64 {
        self.node_id.load(Ordering::Acquire)
    }

    /// Takes the id that this node was given.
    pub fn set_node_id(&self, id: u64) {
        self.node_id.store(id, Ordering::Release);
    }

    /// The cluster's id; empty before it is named.
    #[must_use]
    pub fn cluster_id(&self) -> Arc<String> {
        self.cluster_id.load_full()
    }

    /// Takes the name of the cluster.
    pub fn set_cluster_id(&self, id: String) {
        self.cluster_id.store(Arc::new(id));
    }

    /// The header of a message to this peer.
    #[must_use]
    pub fn header(&self, to: u64, to_uuid: &str) -> PeerHeader {
        PeerHeader {
            cluster_id: self.cluster_id().as_ref().clone(),
            from: self.node_id(),
            to,
            group_id: GROUP_ID,
            from_uuid: self.record.uuid.clone(),
            to_uuid: to_uuid.to_owned(),
        }
    }

    /// Whether a peer may belong to this node's cluster; while one of them has none, it may.
    ///
    /// # Errors
    /// If it belongs to another one.
    pub fn check_cluster(&self, theirs: &str) -> Result<(), PeerRefusal> {
        let ours = self.cluster_id();
        if !ours.is_empty() && !theirs.is_empty() && theirs != *ours {
            return Err(PeerRefusal::WrongCluster {
                ours: ours.as_ref().clone(),
                theirs: theirs.to_owned(),
            });
        }
        Ok(())
    }

    /// Whether a message was meant for this node.
    ///
    /// # Errors
    /// If it was not; the message must be dropped.
    pub fn check<'a>(&self, header: Option<&'a PeerHeader>) -> Result<&'a PeerHeader, PeerRefusal> {
        let header = header.ok_or(PeerRefusal::NoHeader)?;
        if header.group_id != GROUP_ID {
            return Err(PeerRefusal::WrongGroup(header.group_id));
        }
        self.check_cluster(&header.cluster_id)?;
        if let Some(why) = self.put_back() {
            return Err(PeerRefusal::PutBack {
                id: self.node_id(),
                why,
            });
        }
        if header.to != self.node_id() || header.to_uuid != self.record.uuid {
            return Err(PeerRefusal::WrongNode {
                ours: format!("{} ({})", self.node_id(), self.record.uuid),
                theirs: format!("{} ({})", header.to, header.to_uuid),
            });
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uuid: &str, node_id: u64, cluster_id: &str) -> Identity {
        let record = NodeRecord {
            uuid: uuid.to_owned(),
            ..NodeRecord::default()
        };
        Identity::new(record, node_id, cluster_id.to_owned())
    }

    #[test]
    fn a_node_acts_only_on_messages_that_were_meant_for_it() {
        let us = identity("u-2", 2, "c");
        let them = identity("u-1", 1, "c");
        assert!(us.check(Some(&them.header(2, "u-2"))).is_ok());
        assert_eq!(us.check(None), Err(PeerRefusal::NoHeader));
        let former = them.header(2, "u-former");
        assert!(matches!(
            us.check(Some(&former)),
            Err(PeerRefusal::WrongNode { .. })
        ));
        let other = them.header(3, "u-2");
        assert!(matches!(
            us.check(Some(&other)),
            Err(PeerRefusal::WrongNode { .. })
        ));
        let stranger = identity("u-9", 1, "d");
        let foreign = stranger.header(2, "u-2");
        assert!(matches!(
            us.check(Some(&foreign)),
            Err(PeerRefusal::WrongCluster { .. })
        ));
    }

    #[test]
    fn cluster_without_a_name_is_no_other_cluster() {
        let us = identity("u-2", 2, "");
        let them = identity("u-1", 1, "c");
        assert!(us.check(Some(&them.header(2, "u-2"))).is_ok());
    }

    #[test]
    fn advice_to_a_node_that_stays_out_names_both_causes() {
        let advice = put_back_advice("why");
        assert!(
            advice.contains("put back to an older state, or a copy"),
            "{advice}"
        );
        let stop = advice.find("stop the copy").unwrap();
        assert!(stop < advice.find("empty --data-dir").unwrap(), "{advice}");
    }
}
