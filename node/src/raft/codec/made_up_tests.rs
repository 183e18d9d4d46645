//! Messages that a peer makes up: refused with a reason, or understood; and what was understood is encoded in the same words again.

use std::{collections::BTreeSet, fmt::Debug};

use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, StreamAppendError, TransferLeaderRequest,
    VoteRequest, VoteResponse,
};
use prost::Message;

use super::{
    fuzzing::{append_reply, header, settles, stream_reply, transfer, vote_reply, vote_request},
    *,
};
use crate::{
    properties::{bytes_like, check},
    raft::types::TypeConfig,
};

fn log_id(index: u64) -> LogId {
    LogId {
        leader_id: CommittedLeaderId::new(3),
        index,
    }
}

fn vote() -> Vote {
    vote_from_proto(&proto::Vote {
        term: 3,
        node_id: 2,
        committed: true,
    })
}

fn membership() -> Membership {
    Membership::new_with_defaults(vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])], [4])
}

fn entries() -> Vec<Entry> {
    let command = Proposal::from(bytes::Bytes::from("mint"));
    let payloads = [
        Payload::Blank,
        Payload::Normal(command),
        Payload::Membership(membership()),
    ];
    let entry = |(payload, index)| Entry {
        log_id: log_id(index),
        payload,
    };
    payloads.into_iter().zip(6..).map(entry).collect()
}

/// What nodes really send comes back as it went, and what is like it settles.
fn holds<M: Message + Default + PartialEq + Clone + Debug>(
    real: &[M],
    again: impl Fn(M) -> Result<M, CodecError>,
) {
    for message in real {
        assert_eq!(again(message.clone()).as_ref(), Ok(message));
    }
    let real = real.iter().map(Message::encode_to_vec).collect();
    check(&bytes_like(real), |bytes| {
        settles(&bytes, &again);
        Ok(())
    });
}

#[test]
fn an_append_that_a_peer_makes_up_is_refused_or_understood() {
    let append = AppendEntriesRequest::<TypeConfig> {
        vote: vote(),
        prev_log_id: Some(log_id(5)),
        leader_commit: Some(log_id(4)),
        entries: entries(),
    };
    let heartbeat = AppendEntriesRequest::<TypeConfig> {
        prev_log_id: None,
        leader_commit: None,
        entries: Vec::new(),
        ..append.clone()
    };
    let real = [append, heartbeat].map(|request| append_to_proto(header(), request));
    holds(&real, fuzzing::append);
}

#[test]
fn an_answer_to_an_append_that_a_peer_makes_up_is_refused_or_understood() {
    let single = [
        AppendEntriesResponse::Success,
        AppendEntriesResponse::PartialSuccess(Some(log_id(7))),
        AppendEntriesResponse::Conflict,
        AppendEntriesResponse::HigherVote(vote()),
    ];
    holds(&single.map(append_reply_to_proto), append_reply);
    let streamed = [
        Ok(Some(log_id(7))),
        Ok(None),
        Err(StreamAppendError::Conflict(log_id(7))),
        Err(StreamAppendError::HigherVote(vote())),
    ];
    holds(&streamed.map(stream_reply_to_proto), stream_reply);
}

#[test]
fn a_vote_that_a_peer_makes_up_is_refused_or_understood() {
    let request = VoteRequest::<TypeConfig>::new(vote(), Some(log_id(7)));
    let real = [Ballot::Vote, Ballot::PreVote]
        .map(|ballot| vote_request_to_proto(header(), request.clone(), ballot));
    holds(&real, vote_request);
    let reply = VoteResponse::<TypeConfig>::new(vote(), Some(log_id(7)), true);
    holds(&[vote_reply_to_proto(reply)], vote_reply);
}

#[test]
fn a_transfer_that_a_peer_makes_up_is_refused_or_understood() {
    let request = TransferLeaderRequest::<TypeConfig>::new(vote(), 2, Some(log_id(7)));
    let real = transfer_to_proto(header(), &request);
    holds(&[real], transfer);
}

#[test]
fn a_membership_that_a_peer_makes_up_is_refused_or_understood() {
    let stored = StoredMembership::new(Some(log_id(7)), membership());
    let stored = [stored, StoredMembership::default()].map(|it| stored_membership_to_proto(&it));
    let manifest = |membership| proto::SnapshotManifest {
        last_log_id: Some(log_id_to_proto(&log_id(9))),
        membership: Some(membership),
        ..proto::SnapshotManifest::default()
    };
    holds(&stored.map(manifest), |message| fuzzing::manifest(&message));
}
