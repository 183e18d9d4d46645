//! Whether this node is in the right place: a node with the data of another cluster, or of a version that its cluster has left behind,
//! must not go on.
//!
//! Peers are asked before the start and, since a busy or unreachable one says nothing then, as long
//! as the node runs. A node that has once met a peer of its own cluster is in its place: then it is
//! the stranger at the other address that is not, and this node goes on and says so.

use std::{collections::BTreeMap, time::Duration};

use helve_machine::level;
use helve_proto::peer::v1::{HelloReply, NodeRecord};

use super::hello::{hello_all, is_foreign};
use crate::{identity::Identity, raft::Consensus};

/// How often listed peers are asked before a start, while none of them answers.
const MEET_ROUNDS: usize = 5;

/// Between two rounds before a start: peers that are down refuse at once.
const MEET_PAUSE: Duration = Duration::from_millis(100);

/// Between two rounds, while a listed peer has not answered yet.
const PAUSE: Duration = Duration::from_millis(250);

/// Between two rounds, once every listed peer has answered.
const WATCH_PAUSE: Duration = Duration::from_secs(5);

/// Why this node has no place among its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misplaced {
    /// A listed peer belongs to another cluster, and none to this node's.
    OtherCluster {
        /// This node's cluster.
        ours: String,
        /// The peer's seat.
        seat: u64,
        /// The peer's cluster.
        theirs: String,
    },
    /// The peers' cluster has a feature level that this version does not support.
    TooOld {
        /// The cluster's level.
        needed: u32,
        /// The newest that this version supports.
        supported: u32,
    },
}

/// Looks at what peers of this node's cluster, or of the one that it is to join, say of the cluster's level.
///
/// # Errors
/// If it is above what this node supports.
pub(super) fn check_level<'a>(
    own: &NodeRecord,
    replies: impl IntoIterator<Item = &'a HelloReply>,
) -> Result<(), Misplaced> {
    let levels = replies.into_iter().map(|reply| reply.cluster_feature_level);
    let needed = levels.max().unwrap_or(level::FIRST);
    if needed > own.feature_level {
        return Err(Misplaced::TooOld {
            needed,
            supported: own.feature_level,
        });
    }
    Ok(())
}

/// What this node has seen of its peers.
#[derive(Debug, Default)]
struct Acquaintance {
    has_friend: bool,
}

impl Acquaintance {
    /// Judges one round of answers.
    fn judge(
        &mut self,
        identity: &Identity,
        replies: &BTreeMap<u64, HelloReply>,
    ) -> Result<(), Misplaced> {
        let (strangers, others): (Vec<_>, Vec<_>) = replies
            .iter()
            .partition(|(_, reply)| is_foreign(identity, reply));
        let ours = identity.cluster_id();
        let of_ours = |reply: &HelloReply| !ours.is_empty() && reply.cluster_id == *ours;
        let friends = others
            .into_iter()
            .map(|(_, reply)| reply)
            .filter(|r| of_ours(r));
        let friends: Vec<_> = friends.collect();
        self.has_friend |= !friends.is_empty();
        check_level(identity.record(), friends)?;
        let named = |(seat, reply): &(&u64, &HelloReply)| (**seat, reply.cluster_id.clone());
        let strangers: BTreeMap<u64, String> = strangers.iter().map(named).collect();
        // Members left behind by a recovery are named, and are no reason to stop.
        let wrong = |theirs: &&String| !identity.was_of(theirs);
        if let Some((seat, theirs)) = strangers.iter().find(|(_, theirs)| wrong(theirs))
            && !self.has_friend
        {
            return Err(Misplaced::OtherCluster {
                ours: ours.as_ref().clone(),
                seat: *seat,
                theirs: theirs.clone(),
            });
        }
        identity.peer_problems().note_foreign(strangers);
        Ok(())
    }
}

/// Asks the listed peers before the start, until one has answered or has had the time to. `peers` are the listed seats and their peer
/// addresses.
///
/// # Errors
/// If this node must not start.
pub async fn meet(identity: &Identity, peers: &BTreeMap<u64, String>) -> Result<(), Misplaced> {
    // A node of no cluster yet asks its peers in its own way.
    if identity.cluster_id().is_empty() || peers.len() < 2 {
        return Ok(());
    }
    for _ in 0..MEET_ROUNDS {
        let replies = hello_all(identity, peers).await;
        Acquaintance::default().judge(identity, &replies)?;
        if !replies.is_empty() {
            break;
        }
        tokio::time::sleep(MEET_PAUSE).await;
    }
    Ok(())
}

/// Goes on asking as long as this node runs. Returns why it must stop, if it must.
pub async fn watch(consensus: &Consensus, peers: &BTreeMap<u64, String>) -> Misplaced {
    let identity = consensus.identity();
    let mut acquaintance = Acquaintance::default();
    let mut silent: Vec<u64> = peers.keys().copied().collect();
    silent.retain(|seat| *seat != identity.record().seat);
    if silent.is_empty() {
        return std::future::pending().await;
    }
    loop {
        let replies = hello_all(identity, peers).await;
        if let Err(misplaced) = acquaintance.judge(identity, &replies) {
            return misplaced;
        }
        // If all members moved at once, no leader could record that.
        for (seat, reply) in &replies {
            if let Some(address) = peers.get(seat).filter(|_| !is_foreign(identity, reply)) {
                consensus.note_met(&reply.uuid, address);
            }
        }
        // A peer without a cluster has not said yet what matters.
        silent.retain(|seat| replies.get(seat).is_none_or(|r| r.cluster_id.is_empty()));
        let pause = if silent.is_empty() {
            WATCH_PAUSE
        } else {
            PAUSE
        };
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(cluster_id: &str) -> Identity {
        let record = NodeRecord {
            seat: 1,
            feature_level: 1,
            ..NodeRecord::default()
        };
        Identity::new(record, 1, cluster_id.to_owned())
    }

    fn of(cluster_id: &str) -> HelloReply {
        HelloReply {
            cluster_id: cluster_id.to_owned(),
            ..HelloReply::default()
        }
    }

    #[test]
    fn a_node_among_strangers_alone_is_misplaced() {
        let identity = identity("ours");
        let mut acquaintance = Acquaintance::default();
        let none = BTreeMap::new();
        assert_eq!(acquaintance.judge(&identity, &none), Ok(()));
        let pristine = BTreeMap::from([(2, of(""))]);
        assert_eq!(acquaintance.judge(&identity, &pristine), Ok(()));
        let strange = BTreeMap::from([(2, of("")), (3, of("theirs"))]);
        let misplaced = Misplaced::OtherCluster {
            ours: "ours".to_owned(),
            seat: 3,
            theirs: "theirs".to_owned(),
        };
        assert_eq!(acquaintance.judge(&identity, &strange), Err(misplaced));
    }

    #[test]
    fn a_node_that_met_its_own_cluster_goes_on_and_names_the_stranger() {
        let identity = identity("ours");
        let mut acquaintance = Acquaintance::default();
        let mixed = BTreeMap::from([(2, of("ours")), (3, of("theirs"))]);
        assert_eq!(acquaintance.judge(&identity, &mixed), Ok(()));
        // Its friend is silent for a while: that makes it no stranger.
        let strange = BTreeMap::from([(3, of("theirs"))]);
        assert_eq!(acquaintance.judge(&identity, &strange), Ok(()));
        let warnings = identity.peer_problems().warnings(|_| true);
        assert!(
            warnings.iter().any(|w| w.contains("seat 3")),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_recovered_node_goes_on_beside_nodes_of_the_cluster_that_it_left_behind() {
        let identity = identity("ours").recovered_from("former".to_owned());
        let mut acquaintance = Acquaintance::default();
        let left_behind = BTreeMap::from([(2, of("former"))]);
        assert_eq!(acquaintance.judge(&identity, &left_behind), Ok(()));
        let warnings = identity.peer_problems().warnings(|_| true);
        assert!(
            warnings.iter().any(|w| w.contains("seat 2")),
            "{warnings:?}"
        );
        let strange = BTreeMap::from([(2, of("former")), (3, of("theirs"))]);
        assert!(acquaintance.judge(&identity, &strange).is_err());
    }

    #[test]
    fn a_node_below_the_level_of_its_own_cluster_is_misplaced_whatever_strangers_say() {
        let identity = identity("ours");
        let at = |cluster_id: &str, level| HelloReply {
            cluster_feature_level: level,
            ..of(cluster_id)
        };
        let mut acquaintance = Acquaintance::default();
        let replies = BTreeMap::from([(2, at("ours", 1)), (3, at("theirs", 2))]);
        assert_eq!(acquaintance.judge(&identity, &replies), Ok(()));
        let replies = BTreeMap::from([(2, at("ours", 2))]);
        let too_old = Misplaced::TooOld {
            needed: 2,
            supported: 1,
        };
        assert_eq!(acquaintance.judge(&identity, &replies), Err(too_old));
    }
}
