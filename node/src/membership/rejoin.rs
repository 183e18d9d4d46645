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

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use helve_proto::peer::v1::HelloReply;

use super::{
    hello::{hello, is_stranger},
    records::member_addresses,
};
use crate::raft::{Consensus, identity::Identity};

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
        let voters = other_voters(consensus);
        let replies = ask(consensus, peers).await;
        if identity.put_back().is_some() {
            return;
        }
        let listed = peers.keys().filter(|seat| **seat != identity.record().seat);
        let count = if voters.is_empty() && !is_alone(consensus) {
            listed.count()
        } else {
            voters.len()
        };
        match judge(identity, count, &voters, &replies, begun.elapsed()) {
            Verdict::Clear => return consensus.take_part(),
            Verdict::Wait(why) => identity.acknowledged().set_waits_for(&why),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The uuids of the voters beside this node, as its log has them.
fn other_voters(consensus: &Consensus) -> BTreeSet<String> {
    let own = &consensus.identity().record().uuid;
    let members = consensus.overview().members.into_iter();
    members
        .filter(|member| member.voter && member.record.uuid != *own)
        .map(|member| member.record.uuid)
        .collect()
}

/// This node is the only member of its cluster.
fn is_alone(consensus: &Consensus) -> bool {
    let own = &consensus.identity().record().uuid;
    let members = consensus.overview().members;
    !members.is_empty() && members.iter().all(|member| member.record.uuid == *own)
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
        .filter(|reply| reply.uuid != own.uuid && !is_stranger(identity, reply))
        .map(|reply| (reply.uuid.clone(), reply))
        .collect()
}

/// `count` is how many other voters there are, `voters` who they are, as far as this node knows.
fn judge(
    identity: &Identity,
    count: usize,
    voters: &BTreeSet<String>,
    replies: &BTreeMap<String, HelloReply>,
    waited: Duration,
) -> Verdict {
    let acknowledged = identity.acknowledged();
    let of_voters = replies
        .iter()
        .filter(|(uuid, reply)| voters.is_empty() || voters.contains(*uuid) || reply.knows_you);
    let (sound, put_back): (Vec<_>, Vec<_>) =
        of_voters.partition(|(uuid, _)| acknowledged.peer_put_back(uuid).is_none());
    let takes_part = |reply: &HelloReply| reply.testimony.as_ref().is_some_and(|t| t.takes_part);
    let needed = count.div_ceil(2);
    let is_vouched = sound.iter().any(|(_, reply)| takes_part(reply));
    let all_answered = sound.len() >= count;
    if sound.len() >= needed && (is_vouched || all_answered || waited >= PATIENCE) {
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
    Verdict::Wait(format!(
        "it asks its peers whether its disk holds what it acknowledged: {} of {count} answer, {needed} have to; start them, or check \
         the way to them; if the disks of a majority are lost for good, stop this node, and make a new cluster of it with `helve \
         recover --data-dir DIR`",
        sound.len()
    ))
}

#[cfg(test)]
mod tests {
    use helve_proto::peer::v1::{NodeRecord, Testimony};

    use super::*;
    use crate::raft::acknowledged::{Position, Run};

    fn identity() -> Identity {
        let record = NodeRecord {
            uuid: "own".to_owned(),
            seat: 1,
            ..NodeRecord::default()
        };
        Identity::new(record, 1, "ours".to_owned())
    }

    #[expect(
        clippy::fn_params_excessive_bools,
        reason = "it is the message's own field"
    )]
    fn reply(takes_part: bool) -> HelloReply {
        HelloReply {
            testimony: Some(Testimony {
                takes_part,
                ..Testimony::default()
            }),
            ..HelloReply::default()
        }
    }

    fn replies(of: &[(&str, bool)]) -> BTreeMap<String, HelloReply> {
        of.iter()
            .map(|(uuid, takes_part)| ((*uuid).to_owned(), reply(*takes_part)))
            .collect()
    }

    fn is_clear(voters: &[&str], of: &[(&str, bool)], waited: Duration) -> bool {
        let voters: BTreeSet<String> = voters.iter().map(ToString::to_string).collect();
        let verdict = judge(&identity(), voters.len(), &voters, &replies(of), waited);
        verdict == Verdict::Clear
    }

    #[test]
    fn a_majority_clears_a_node_if_one_takes_part_or_all_answer_or_time_is_up() {
        let soon = Duration::ZERO;
        assert!(!is_clear(&["b", "c"], &[], PATIENCE));
        assert!(!is_clear(&["b", "c"], &[("b", false)], soon));
        assert!(is_clear(&["b", "c"], &[("b", true)], soon));
        assert!(is_clear(&["b", "c"], &[("b", false)], PATIENCE));
        assert!(is_clear(&["b", "c"], &[("b", false), ("c", false)], soon));
        assert!(!is_clear(&["b", "c", "d", "e"], &[("b", true)], PATIENCE));
        assert!(is_clear(
            &["b", "c", "d", "e"],
            &[("b", true), ("c", false)],
            soon
        ));
        assert!(is_clear(&["b"], &[("b", false)], soon));
        assert!(!is_clear(&["b"], &[], PATIENCE));
        assert!(is_clear(&[], &[], soon));
        // Who is no voter, and does not know this node, clears nothing.
        assert!(!is_clear(&["b", "c"], &[("x", true)], PATIENCE));
    }

    #[test]
    fn a_peer_that_is_on_an_older_disk_clears_nobody() {
        let identity = identity();
        let acknowledged = identity.acknowledged();
        let run = |number| Run { number, nonce: 1 };
        let newer = Position {
            term: 2,
            last: Some((2, 9)),
        };
        acknowledged.note("b", run(1), newer);
        let testimony = Testimony {
            run: Some(run(2).to_proto()),
            takes_part: true,
            ..Testimony::default()
        };
        identity.hear("b", Some(&testimony));
        let voters: BTreeSet<String> = ["b".to_owned(), "c".to_owned()].into();
        let replies = replies(&[("b", true)]);
        let verdict = judge(&identity, 2, &voters, &replies, PATIENCE);
        assert!(
            matches!(&verdict, Verdict::Wait(why) if why.contains("entry 9 in term 2")),
            "{verdict:?}"
        );
    }
}
