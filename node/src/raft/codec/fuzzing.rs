//! Messages and records that a peer makes up: refused with a reason, or understood; and what was
//! understood is understood so again.

use std::fmt::Debug;

use prost::Message;

use super::*;
use crate::identity::acknowledged::fuzzing::testimony;

type Again<M> = Result<M, CodecError>;

/// The header that is written in place of the one that came.
pub(super) fn header() -> proto::PeerHeader {
    proto::PeerHeader {
        cluster_id: "cluster".to_owned(),
        from: 1,
        to: 2,
        group_id: 1,
        from_uuid: "u-1".to_owned(),
        to_uuid: "u-2".to_owned(),
    }
}

/// Reads a message of a peer, its testimony, or an entry of the log. The first byte says of which
/// kind.
///
/// # Panics
/// If it is understood in two ways, or more of a testimony is kept than may be.
pub fn peer_message(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 9 {
        0 => settles(bytes, append),
        1 => settles(bytes, append_reply),
        2 => settles(bytes, stream_reply),
        3 => settles(bytes, vote_request),
        4 => settles(bytes, vote_reply),
        5 => settles(bytes, transfer),
        6 => settles(bytes, |message| manifest(&message)),
        7 => settles(bytes, log_entry),
        _ => testimony(bytes),
    }
}

/// Reads bytes, writes what was understood, and reads that again.
pub(super) fn settles<M: Message + Default + PartialEq + Debug>(
    bytes: &[u8],
    again: impl Fn(M) -> Again<M>,
) {
    let Ok(Ok(once)) = M::decode(bytes).map(&again) else {
        return;
    };
    let sent = M::decode(once.encode_to_vec().as_slice());
    assert_eq!(sent.map(again), Ok(Ok(once)));
}

pub(super) fn append(message: proto::AppendRequest) -> Again<proto::AppendRequest> {
    Ok(append_to_proto(header(), append_from_proto(message)?))
}

pub(super) fn append_reply(message: proto::AppendReply) -> Again<proto::AppendReply> {
    append_reply_from_proto(message).map(append_reply_to_proto)
}

pub(super) fn stream_reply(message: proto::AppendReply) -> Again<proto::AppendReply> {
    stream_reply_from_proto(message).map(stream_reply_to_proto)
}

pub(super) fn vote_request(message: proto::VoteRequest) -> Again<proto::VoteRequest> {
    let (request, ballot) = vote_request_from_proto(message)?;
    Ok(vote_request_to_proto(header(), request, ballot))
}

pub(super) fn vote_reply(message: proto::VoteReply) -> Again<proto::VoteReply> {
    vote_reply_from_proto(message).map(vote_reply_to_proto)
}

pub(super) fn transfer(message: proto::TransferRequest) -> Again<proto::TransferRequest> {
    Ok(transfer_to_proto(header(), &transfer_from_proto(message)?))
}

pub(super) fn manifest(message: &proto::SnapshotManifest) -> Again<proto::SnapshotManifest> {
    let meta = snapshot_meta(message)?;
    Ok(proto::SnapshotManifest {
        last_log_id: log_id_option_to_proto(meta.last_log_id.as_ref()),
        membership: Some(stored_membership_to_proto(&meta.last_membership)),
        ..proto::SnapshotManifest::default()
    })
}

fn log_entry(message: proto::LogEntry) -> Again<proto::LogEntry> {
    entry_from_proto(message).map(|entry| entry_to_proto(&entry))
}
