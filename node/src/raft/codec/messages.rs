//! The messages that peers exchange about the log and about votes.

#![expect(
    clippy::needless_pass_by_value,
    reason = "a conversion consumes what it converts, whatever it holds"
)]

use helve_proto::peer::v1 as proto;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use proto::append_reply;

use super::{
    Ballot, CodecError, entry_from_proto, entry_to_proto, log_id_from_proto, log_id_option,
    log_id_option_to_proto, log_id_to_proto, required_vote, vote_from_proto, vote_to_proto,
};
use crate::raft::types::{LogId, TypeConfig};

// ---- append ----

/// An append as the contract has it.
#[must_use]
pub fn append_to_proto(
    header: proto::PeerHeader,
    request: AppendEntriesRequest<TypeConfig>,
) -> proto::AppendRequest {
    proto::AppendRequest {
        header: Some(header),
        vote: Some(vote_to_proto(&request.vote)),
        prev_log_id: log_id_option_to_proto(request.prev_log_id.as_ref()),
        leader_commit: log_id_option_to_proto(request.leader_commit.as_ref()),
        entries: request.entries.iter().map(entry_to_proto).collect(),
        ..proto::AppendRequest::default()
    }
}

/// An append from the contract. Its header is the caller's to judge.
///
/// # Errors
/// See [`CodecError`].
pub fn append_from_proto(
    request: proto::AppendRequest,
) -> Result<AppendEntriesRequest<TypeConfig>, CodecError> {
    let entries = request.entries.into_iter().map(entry_from_proto);
    Ok(AppendEntriesRequest {
        vote: required_vote(request.vote)?,
        prev_log_id: log_id_option(request.prev_log_id.as_ref()),
        leader_commit: log_id_option(request.leader_commit.as_ref()),
        entries: entries.collect::<Result<_, _>>()?,
    })
}

/// The answer to one append.
#[must_use]
pub fn append_reply_to_proto(reply: AppendEntriesResponse<TypeConfig>) -> proto::AppendReply {
    let result = match reply {
        AppendEntriesResponse::Success => {
            append_reply::Result::Success(proto::AppendedUpTo { log_id: None })
        }
        AppendEntriesResponse::PartialSuccess(log_id) => {
            append_reply::Result::PartialSuccess(appended_up_to(log_id.as_ref()))
        }
        AppendEntriesResponse::Conflict => append_reply::Result::Conflict(true),
        AppendEntriesResponse::HigherVote(vote) => {
            append_reply::Result::HigherVote(vote_to_proto(&vote))
        }
    };
    proto::AppendReply {
        result: Some(result),
        ..proto::AppendReply::default()
    }
}

/// The answer to one append, from the contract.
///
/// # Errors
/// If it holds no result, or the peer has stopped.
pub fn append_reply_from_proto(
    reply: proto::AppendReply,
) -> Result<AppendEntriesResponse<TypeConfig>, CodecError> {
    match reply.result {
        Some(append_reply::Result::Success(_)) => Ok(AppendEntriesResponse::Success),
        Some(append_reply::Result::PartialSuccess(upto)) => Ok(
            AppendEntriesResponse::PartialSuccess(log_id_option(upto.log_id.as_ref())),
        ),
        Some(append_reply::Result::Conflict(_)) => Ok(AppendEntriesResponse::Conflict),
        Some(append_reply::Result::HigherVote(vote)) => {
            Ok(AppendEntriesResponse::HigherVote(vote_from_proto(&vote)))
        }
        Some(append_reply::Result::Stopped(_)) | None => Err(CodecError::Missing("append result")),
    }
}

/// An answer in a stream of appends.
#[must_use]
pub fn stream_reply_to_proto(reply: StreamAppendResult<TypeConfig>) -> proto::AppendReply {
    let (result, conflict) = match reply {
        Ok(log_id) => (
            append_reply::Result::Success(appended_up_to(log_id.as_ref())),
            None,
        ),
        Err(StreamAppendError::Conflict(log_id)) => (
            append_reply::Result::Conflict(true),
            Some(log_id_to_proto(&log_id)),
        ),
        Err(StreamAppendError::HigherVote(vote)) => {
            (append_reply::Result::HigherVote(vote_to_proto(&vote)), None)
        }
    };
    proto::AppendReply {
        result: Some(result),
        conflict_log_id: conflict,
        ..proto::AppendReply::default()
    }
}

/// An answer in a stream of appends, from the contract.
///
/// # Errors
/// If it holds no result, or the peer has stopped.
pub fn stream_reply_from_proto(
    reply: proto::AppendReply,
) -> Result<StreamAppendResult<TypeConfig>, CodecError> {
    match reply.result {
        Some(append_reply::Result::Success(upto) | append_reply::Result::PartialSuccess(upto)) => {
            Ok(Ok(log_id_option(upto.log_id.as_ref())))
        }
        Some(append_reply::Result::Conflict(_)) => {
            let log_id = reply
                .conflict_log_id
                .ok_or(CodecError::Missing("conflicting log id"))?;
            Ok(Err(StreamAppendError::Conflict(log_id_from_proto(&log_id))))
        }
        Some(append_reply::Result::HigherVote(vote)) => {
            Ok(Err(StreamAppendError::HigherVote(vote_from_proto(&vote))))
        }
        Some(append_reply::Result::Stopped(_)) | None => Err(CodecError::Missing("append result")),
    }
}

fn appended_up_to(log_id: Option<&LogId>) -> proto::AppendedUpTo {
    proto::AppendedUpTo {
        log_id: log_id_option_to_proto(log_id),
    }
}

// ---- votes ----

/// A request for a vote.
#[must_use]
pub fn vote_request_to_proto(
    header: proto::PeerHeader,
    request: VoteRequest<TypeConfig>,
    ballot: Ballot,
) -> proto::VoteRequest {
    let VoteRequest {
        vote,
        last_log_id,
        leadership_transfer,
    } = request;
    proto::VoteRequest {
        header: Some(header),
        vote: Some(vote_to_proto(&vote)),
        last_log_id: log_id_option_to_proto(last_log_id.as_ref()),
        pre_vote: ballot == Ballot::PreVote,
        leadership_transfer,
    }
}

/// A request for a vote, from the contract.
///
/// # Errors
/// If it holds no vote.
pub fn vote_request_from_proto(
    request: proto::VoteRequest,
) -> Result<(VoteRequest<TypeConfig>, Ballot), CodecError> {
    let ballot = if request.pre_vote {
        Ballot::PreVote
    } else {
        Ballot::Vote
    };
    let last_log_id = log_id_option(request.last_log_id.as_ref());
    let mut vote_request = VoteRequest::new(required_vote(request.vote)?, last_log_id);
    vote_request.leadership_transfer = request.leadership_transfer;
    Ok((vote_request, ballot))
}

/// A voter's answer.
#[must_use]
pub fn vote_reply_to_proto(reply: VoteResponse<TypeConfig>) -> proto::VoteReply {
    let VoteResponse {
        vote,
        vote_granted,
        last_log_id,
    } = reply;
    proto::VoteReply {
        vote: Some(vote_to_proto(&vote)),
        granted: vote_granted,
        last_log_id: log_id_option_to_proto(last_log_id.as_ref()),
        ..proto::VoteReply::default()
    }
}

/// A voter's answer, from the contract.
///
/// # Errors
/// If it holds no vote.
pub fn vote_reply_from_proto(
    reply: proto::VoteReply,
) -> Result<VoteResponse<TypeConfig>, CodecError> {
    let last_log_id = log_id_option(reply.last_log_id.as_ref());
    Ok(VoteResponse::new(
        required_vote(reply.vote)?,
        last_log_id,
        reply.granted,
    ))
}

// ---- transfer of leadership ----

/// The leader's word that the receiver is to lead.
#[must_use]
pub fn transfer_to_proto(
    header: proto::PeerHeader,
    request: &TransferLeaderRequest<TypeConfig>,
) -> proto::TransferRequest {
    proto::TransferRequest {
        header: Some(header),
        from_leader: Some(vote_to_proto(request.from_leader())),
        to: *request.to_node_id(),
        last_log_id: log_id_option_to_proto(request.last_log_id()),
    }
}

/// The leader's word, from the contract.
///
/// # Errors
/// If it holds no vote.
pub fn transfer_from_proto(
    request: proto::TransferRequest,
) -> Result<TransferLeaderRequest<TypeConfig>, CodecError> {
    let from = required_vote(request.from_leader)?;
    let last_log_id = log_id_option(request.last_log_id.as_ref());
    Ok(TransferLeaderRequest::new(from, request.to, last_log_id))
}

/// The receiver's answer. A refusal does not say why; to the leader it is always worth another attempt later.
///
/// # Errors
/// The refusal itself.
pub fn transfer_reply_from_proto(
    reply: &proto::TransferReply,
    request: &TransferLeaderRequest<TypeConfig>,
) -> TransferLeaderResponse<TypeConfig> {
    if reply.accepted {
        return Ok(());
    }
    let expected = request.last_log_id().copied();
    Err(TransferLeaderError::LogNotFlushed {
        expected,
        actual: None,
    })
}
