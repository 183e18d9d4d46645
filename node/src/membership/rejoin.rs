//! How a node that has a past comes back: it votes, and stores what it is sent, only once its peers have told what it acknowledged.
//!
//! It waits for all voters that it knows. It goes on without those that are silent
//!
//! - at once, if those that answered are a majority together with it, and one of them takes part
//!   already: that one has heard from a leader;
//! - after two seconds, if that many answered. Two nodes that come back together may both be on
//!   older disks, and only the third know.
//!
//! Nothing is lost by the wait: without a majority no node is of use.
//!
//! Learners are asked too, and do not count: what a majority of the voters acknowledged, a learner may not have heard.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use helve_proto::peer::v1::{HelloReply, MemberRole};

use super::{
    hello::{hello, is_foreign},
    records::member_addresses,
};
use crate::{identity::Identity, raft::Consensus};

/// How long a node waits for peers that do not answer, if a majority does.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(50);

/// What the answers of a round come to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// This node may take part.
    Clear,
    /// Not yet, and why.
    Wait(String),
}

/// Asks until this node may take part, and lets it. `peers` are the listed seats and their peer addresses. Returns early if this
/// node's disk turns out to be an older one.
pub async fn rejoin(consensus: &Consensus, peers: &BTreeMap<u64, String>) {
    let identity = consensus.identity();
    let begun = Instant::now();
    loop {
        let others = Others::of(consensus, peers);
        let replies = ask(consensus, peers).await;
        if identity.put_back().is_some() {
            return;
        }
        match judge(identity, &others, &replies, begun.elapsed()) {
            Verdict::Clear => return consensus.take_part(),
            Verdict::Wait(why) => identity.acknowledged().set_waits_for(&why),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The members beside this node, as its own log has them. The log may be old.
#[derive(Debug, Default)]
struct Others {
    /// The uuids of the voters.
    voters: BTreeSet<String>,
    /// How many voters there are; while the log has no members, how many other nodes are listed.
    count: usize,
    /// The log has no members: this node has received nothing since the cluster was founded, or its disk is from before that.
    is_unknown: bool,
    /// This node alone votes, and there are learners.
    is_only_voter: bool,
}

impl Others {
    fn of(consensus: &Consensus, peers: &BTreeMap<u64, String>) -> Self {
        let own = consensus.identity().record();
        let members = consensus.overview().members;
        if members.is_empty() {
            return Self {
                count: peers.keys().filter(|seat| **seat != own.seat).count(),
                is_unknown: true,
                ..Self::default()
            };
        }
        let others = members.iter().filter(|m| m.record.uuid != own.uuid);
        let voters = others.clone().filter(|member| member.voter);
        let voters: BTreeSet<String> = voters.map(|m| m.record.uuid.clone()).collect();
        Self {
            count: voters.len(),
            is_unknown: false,
            is_only_voter: voters.is_empty() && others.count() > 0,
            voters,
        }
    }

    /// Whether this reply is that of a voter, by this node's log or by the sender's.
    fn is_of_voter(&self, uuid: &str, reply: &HelloReply) -> bool {
        self.voters.contains(uuid)
            || match reply.role() {
                MemberRole::Voter => self.is_unknown || reply.knows_you,
                MemberRole::NoVoter => false,
                // Of a cluster that is being founded: no log, and no cluster id. An older version that has a membership may be that
                // of a learner.
                MemberRole::Unspecified => {
                    self.is_unknown
                        && !reply.knows_you
                        && !reply.learner
                        && reply.cluster_id.is_empty()
                }
            }
    }

    /// How many voters there are. Of listed nodes, those that say that they do not vote are left out: a cluster may have many learners.
    fn count_beside(&self, replies: &BTreeMap<String, HelloReply>) -> usize {
        if !self.is_unknown {
            return self.count;
        }
        let says_no = |reply: &&HelloReply| match reply.role() {
            MemberRole::Voter => false,
            MemberRole::NoVoter => true,
            MemberRole::Unspecified => reply.learner,
        };
        let without = replies.values().filter(says_no).count();
        self.count.saturating_sub(without)
    }

    /// Whether this reply is that of an older version, which does not say whether its node votes; nor does this node's log.
    fn is_mute(&self, uuid: &str, reply: &HelloReply) -> bool {
        reply.knows_you && reply.role() == MemberRole::Unspecified && !self.voters.contains(uuid)
    }
}

/// Asks all listed nodes and members, and returns the replies of this node's cluster, by uuid.
async fn ask(consensus: &Consensus, peers: &BTreeMap<u64, String>) -> BTreeMap<String, HelloReply> {
    let identity = consensus.identity();
    let own = identity.record();
    let listed = peers.iter().filter(|(seat, _)| **seat != own.seat);
    let addresses: BTreeSet<String> = listed
        .map(|(_, address)| address.clone())
        .chain(member_addresses(consensus).into_values())
        .filter(|address| *address != own.peer_address)
        .collect();
    let asked = addresses.iter().map(|address| hello(identity, address));
    let replies = futures::future::join_all(asked).await.into_iter().flatten();
    replies
        .filter(|reply| reply.uuid != own.uuid && !is_foreign(identity, reply))
        .map(|reply| (reply.uuid.clone(), reply))
        .collect()
}

/// What these replies, by the senders' uuids, are enough for.
fn judge(
    identity: &Identity,
    others: &Others,
    replies: &BTreeMap<String, HelloReply>,
    waited: Duration,
) -> Verdict {
    let acknowledged = identity.acknowledged();
    let count = others.count_beside(replies);
    let of_voters = replies
        .iter()
        .filter(|(uuid, reply)| others.is_of_voter(uuid, reply));
    let (sound, put_back): (Vec<_>, Vec<_>) =
        of_voters.partition(|(uuid, _)| acknowledged.peer_put_back(uuid).is_none());
    let takes_part = |reply: &HelloReply| reply.testimony.as_ref().is_some_and(|t| t.takes_part);
    let votes = |reply: &HelloReply| reply.role() == MemberRole::Voter;
    let needed = count.div_ceil(2);
    let is_vouched = sound.iter().any(|(_, reply)| takes_part(reply));
    let all_answered = sound.len() >= count;
    // Those that have no members either know nothing of this node.
    let is_known = !others.is_unknown || count == 0 || sound.iter().any(|(_, reply)| votes(reply));
    // A learner may have been promoted since this node's disk was copied.
    let is_heard = !others.is_only_voter || !replies.is_empty() || waited >= PATIENCE;
    let is_enough = sound.len() >= needed && is_known && is_heard;
    if is_enough && (is_vouched || all_answered || waited >= PATIENCE) {
        return Verdict::Clear;
    }
    if let Some((uuid, reply)) = put_back.first()
        && let Some(why) = acknowledged.peer_put_back(uuid)
    {
        return Verdict::Wait(format!(
            "the disk of the node at seat {} was put back to an older state ({why}): stop that node, and start it with an empty --data-dir",
            reply.seat
        ));
    }
    let mute = replies
        .iter()
        .filter(|(uuid, reply)| others.is_mute(uuid, reply));
    let mute: Vec<u64> = mute.map(|(_, reply)| reply.seat).collect();
    let upgrade = if mute.is_empty() {
        String::new()
    } else {
        format!(
            "; the versions at seats {mute:?} do not say whether their nodes vote: upgrade those"
        )
    };
    Verdict::Wait(format!(
        "it asks its peers whether its disk holds what it acknowledged: {} of {count} voters answer, {needed} have to; start them, or \
         check the way to them{upgrade}; if the disks of a majority are lost for good, stop this node, and make a new cluster of it \
         with `helve recover --data-dir DIR`",
        sound.len()
    ))
}

#[cfg(test)]
mod tests;
