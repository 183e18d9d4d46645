//! The peer that a connection is to: how it takes this node's messages, and what its answers acknowledge.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use helve_proto::{
    Reason,
    peer::v1::{AppendReply, Testimony, Vote, VoteReply, append_reply},
};
use tonic::Status;
use tonic_types::StatusExt as _;

use super::{
    Identity,
    acknowledged::{Flushed, Position, Run},
    peer_problems::Rival,
};

/// Between two requests of one stream that tell what nodes acknowledged.
const TESTIMONY_PAUSE: Duration = Duration::from_millis(50);

/// What a leader says of a member that lost what it had acknowledged.
const LACKS: &str = "its log lacks what it has acknowledged: its disk was put back to an older state; stop that node and start it with an empty --data-dir";

/// What a leader says of a member that follows another leader of the same term.
fn two_leaders(rival: Rival) -> String {
    let Rival { term, own, other } = rival;
    format!(
        "it follows node {own} as the leader of term {term}, and node {other} was elected in that term as well, by nodes whose disks were \
         put back to an older state or lost; what was acknowledged may be left on that node alone: its own `helve status` says how to \
         keep it"
    )
}

/// The peer of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) identity: Arc<Identity>,
    pub(crate) target: u64,
    pub(crate) uuid: String,
    pub(crate) flushed: Flushed,
}

impl Peer {
    pub(crate) fn answered<T>(&self, answer: Result<T, Status>) -> Result<T, Status> {
        let peer_problems = self.identity.peer_problems();
        answer.inspect_err(|status| {
            if is_misdirected(status) {
                peer_problems.note_refusal(self.target, status.message());
            }
        })
    }

    /// A node whose own disk was put back to an older state sends nothing.
    pub(crate) fn check_own_part(&self) -> Result<(), Status> {
        match self.identity.put_back() {
            None => Ok(()),
            Some(why) => Err(Status::failed_precondition(why)),
        }
    }

    /// What this leader tells with a request.
    pub(crate) fn testimony(&self, term: u64) -> Result<Testimony, Status> {
        self.check_own_part()?;
        let acknowledged = self.identity.acknowledged();
        let own = &self.identity.record().uuid;
        acknowledged.note(own, acknowledged.run(), self.flushed.as_leader(term));
        Ok(acknowledged.testimony())
    }

    /// What this leader tells now and then in a stream.
    pub(crate) fn telling(&self, term: u64) -> Result<Telling, Status> {
        self.check_own_part()?;
        Ok(Telling {
            peer: self.clone(),
            term,
            last: None,
        })
    }

    /// The peer answers to a heartbeat, which asks whether it holds the last entry that it
    /// acknowledged: `matching` is its index.
    pub(crate) fn check_holds(
        &self,
        term: u64,
        matching: Option<u64>,
        reply: &AppendReply,
    ) -> Result<(), Status> {
        match (&reply.result, matching) {
            (Some(append_reply::Result::Conflict(_)), Some(matching)) => {
                self.check_conflict(term, matching)
            }
            (Some(append_reply::Result::HigherVote(vote)), _) => {
                self.refused_by(term, vote);
                Ok(())
            }
            _ => {
                self.accepted();
                Ok(())
            }
        }
    }

    /// The peer answers to entries of this leader's term.
    pub(crate) fn acknowledges(&self, term: u64, reply: &AppendReply) -> Result<(), Status> {
        match &reply.result {
            Some(
                append_reply::Result::Success(upto) | append_reply::Result::PartialSuccess(upto),
            ) => {
                let last = upto.log_id.map(|id| (id.term, id.index));
                let run = Run::from_proto(reply.run);
                let position = Position { term, last };
                let acknowledged = self.identity.acknowledged();
                acknowledged.note(&self.uuid, run, position);
            }
            Some(append_reply::Result::Conflict(_)) => {
                let index = reply.conflict_log_id.map_or(u64::MAX, |id| id.index);
                self.check_conflict(term, index)?;
            }
            Some(append_reply::Result::HigherVote(vote)) => {
                self.refused_by(term, vote);
                return Ok(());
            }
            _ => {}
        }
        self.accepted();
        Ok(())
    }

    /// Notes that the peer, which refused a message of this term's leader, follows another leader of the term, if its vote says so.
    fn refused_by(&self, term: u64, vote: &Vote) {
        let own = Vote {
            term,
            node_id: self.identity.node_id(),
            committed: true,
        };
        if let Some(rival) = Rival::of(vote, &own) {
            let peer_problems = self.identity.peer_problems();
            peer_problems.note_refusal(self.target, &two_leaders(rival));
        }
    }

    /// The peer took a message as one of its cluster.
    pub(crate) fn accepted(&self) {
        self.identity.peer_problems().note_accepted(self.target);
    }

    /// What the peer lacks must not be what it acknowledged to this leader: consensus would wait for ever for what it has already.
    fn check_conflict(&self, term: u64, lacking: u64) -> Result<(), Status> {
        let acknowledged = self.identity.acknowledged();
        if !acknowledged.contradicts(&self.uuid, term, lacking) {
            return Ok(());
        }
        let peer_problems = self.identity.peer_problems();
        peer_problems.note_refusal(self.target, LACKS);
        Err(Status::data_loss(LACKS))
    }

    /// The peer answers to a candidate of this term.
    pub(crate) fn votes(&self, term: u64, reply: &VoteReply) {
        let voted = reply
            .vote
            .is_some_and(|vote| reply.granted && vote.term == term);
        if voted {
            let run = Run::from_proto(reply.run);
            let position = Position { term, last: None };
            let acknowledged = self.identity.acknowledged();
            acknowledged.note(&self.uuid, run, position);
        }
        self.accepted();
    }
}

/// What a leader tells in one stream.
pub(crate) struct Telling {
    peer: Peer,
    term: u64,
    last: Option<Instant>,
}

impl Telling {
    /// What to tell with the next request, if it is time.
    pub(crate) fn next(&mut self) -> Option<Testimony> {
        if self.last.is_some_and(|at| at.elapsed() < TESTIMONY_PAUSE) {
            return None;
        }
        self.last = Some(Instant::now());
        self.peer.testimony(self.term).ok()
    }
}

/// The peer holds that the message is not for it, or its sender is unknown.
fn is_misdirected(status: &Status) -> bool {
    let reason = status.get_details_error_info().map(|info| info.reason);
    reason.is_some_and(|reason| {
        [Reason::WrongCluster, Reason::WrongNode]
            .iter()
            .any(|wrong| wrong.as_str() == reason)
    })
}
