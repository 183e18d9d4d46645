//! Between openraft's types and the contract's messages, which stand on the wire and on disk. openraft's own encodings are never used,
//! so a new version of it changes neither.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod made_up_tests;
mod messages;

use std::collections::{BTreeMap, BTreeSet};

use helve_proto::peer::v1 as proto;
use proto::log_entry;

pub use self::messages::{
    append_from_proto, append_reply_from_proto, append_reply_to_proto, append_to_proto,
    stream_reply_from_proto, stream_reply_to_proto, transfer_from_proto, transfer_reply_from_proto,
    transfer_to_proto, vote_reply_from_proto, vote_reply_to_proto, vote_request_from_proto,
    vote_request_to_proto,
};
use super::types::{
    CommittedLeaderId, Entry, LeaderId, LogId, Membership, NodeInfo, Payload, Proposal,
    SnapshotMeta, StoredMembership, Vote,
};
use crate::storage::log_db::ENTRY_FORMAT;

/// Why a message or a record cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A part that every sender writes is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Written by a newer build.
    #[error(
        "entry format {0} is newer than {ENTRY_FORMAT}, the newest that this build reads: upgrade this node"
    )]
    NewerFormat(u32),
    /// Voters without nodes, or an empty set of voters.
    #[error("a membership contradicts itself: {0}")]
    Membership(String),
}

/// What is asked for: a vote, or how a vote would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ballot {
    /// It binds the voter.
    Vote,
    /// It binds no voter, and disturbs no leader.
    PreVote,
}

// ---- values ----

/// A log id as the contract has it.
#[must_use]
pub fn log_id_to_proto(log_id: &LogId) -> proto::LogId {
    proto::LogId {
        term: log_id.leader_id.term,
        index: log_id.index,
    }
}

/// A log id from the contract.
#[must_use]
pub fn log_id_from_proto(log_id: &proto::LogId) -> LogId {
    LogId {
        leader_id: CommittedLeaderId::new(log_id.term),
        index: log_id.index,
    }
}

fn log_id_option_to_proto(log_id: Option<&LogId>) -> Option<proto::LogId> {
    log_id.map(log_id_to_proto)
}

fn log_id_option(log_id: Option<&proto::LogId>) -> Option<LogId> {
    log_id.map(log_id_from_proto)
}

/// A vote as the contract has it.
#[must_use]
pub fn vote_to_proto(vote: &Vote) -> proto::Vote {
    proto::Vote {
        term: vote.leader_id.term,
        node_id: vote.leader_id.voted_for,
        committed: vote.committed,
    }
}

/// A vote from the contract.
#[must_use]
pub fn vote_from_proto(vote: &proto::Vote) -> Vote {
    let leader_id = LeaderId {
        term: vote.term,
        voted_for: vote.node_id,
    };
    Vote {
        leader_id,
        committed: vote.committed,
    }
}

/// A vote that must be there.
///
/// # Errors
/// If it is not.
pub fn required_vote(vote: Option<proto::Vote>) -> Result<Vote, CodecError> {
    vote.as_ref()
        .map(vote_from_proto)
        .ok_or(CodecError::Missing("vote"))
}

/// A membership as the contract has it.
#[must_use]
pub fn membership_to_proto(membership: &Membership) -> proto::Membership {
    let configs = membership.get_joint_config().iter();
    let configs = configs.map(|ids| proto::VoterSet {
        ids: ids.iter().copied().collect(),
    });
    let nodes = membership.nodes().map(|(id, node)| (*id, node.0.clone()));
    proto::Membership {
        configs: configs.collect(),
        nodes: nodes.collect(),
    }
}

/// A membership from the contract.
///
/// # Errors
/// If a set of voters is empty, or a voter has no node.
pub fn membership_from_proto(membership: proto::Membership) -> Result<Membership, CodecError> {
    let configs = membership.configs.into_iter();
    let configs: Vec<BTreeSet<u64>> = configs.map(|set| set.ids.into_iter().collect()).collect();
    let nodes = membership
        .nodes
        .into_iter()
        .map(|(id, node)| (id, NodeInfo(node)));
    let nodes: BTreeMap<u64, NodeInfo> = nodes.collect();
    Membership::new(configs, nodes).map_err(|e| CodecError::Membership(e.to_string()))
}

/// A stored membership as the contract has it.
#[cfg(any(test, fuzzing))]
#[must_use]
pub fn stored_membership_to_proto(stored: &StoredMembership) -> proto::StoredMembership {
    proto::StoredMembership {
        log_id: log_id_option_to_proto(stored.log_id().as_ref()),
        membership: Some(membership_to_proto(stored.membership())),
    }
}

/// A stored membership from the contract.
///
/// # Errors
/// If it contradicts itself.
pub fn stored_membership_from_proto(
    stored: proto::StoredMembership,
) -> Result<StoredMembership, CodecError> {
    let membership = membership_from_proto(stored.membership.unwrap_or_default())?;
    Ok(StoredMembership::new(
        log_id_option(stored.log_id.as_ref()),
        membership,
    ))
}

/// What a snapshot's manifest says that it covers.
///
/// # Errors
/// If its membership contradicts itself.
pub fn snapshot_meta(manifest: &proto::SnapshotManifest) -> Result<SnapshotMeta, CodecError> {
    let last_membership = manifest.membership.clone().unwrap_or_default();
    Ok(SnapshotMeta {
        last_log_id: log_id_option(manifest.last_log_id.as_ref()),
        last_membership: stored_membership_from_proto(last_membership)?,
    })
}

// ---- entries ----

/// An entry as it is on the wire and on disk. A command's bytes are shared, not copied.
#[must_use]
pub fn entry_to_proto(entry: &Entry) -> proto::LogEntry {
    let payload = match &entry.payload {
        Payload::Blank => log_entry::Payload::Blank(true),
        Payload::Normal(proposal) => log_entry::Payload::Command(proposal.command.clone()),
        Payload::Membership(membership) => {
            log_entry::Payload::Membership(membership_to_proto(membership))
        }
    };
    proto::LogEntry {
        format: ENTRY_FORMAT,
        log_id: Some(log_id_to_proto(&entry.log_id)),
        payload: Some(payload),
    }
}

/// An entry from the wire or from disk.
///
/// # Errors
/// See [`CodecError`].
pub fn entry_from_proto(entry: proto::LogEntry) -> Result<Entry, CodecError> {
    if entry.format > ENTRY_FORMAT {
        return Err(CodecError::NewerFormat(entry.format));
    }
    let log_id = entry.log_id.ok_or(CodecError::Missing("log id"))?;
    let payload = match entry.payload.ok_or(CodecError::Missing("payload"))? {
        log_entry::Payload::Blank(_) => Payload::Blank,
        log_entry::Payload::Command(command) => Payload::Normal(Proposal::from(command)),
        log_entry::Payload::Membership(membership) => {
            Payload::Membership(membership_from_proto(membership)?)
        }
    };
    Ok(Entry {
        log_id: log_id_from_proto(&log_id),
        payload,
    })
}

/// An entry from the wire or from disk, if consensus could take it.
///
/// # Errors
/// See [`CodecError`].
pub fn check_entry(entry: proto::LogEntry) -> Result<proto::LogEntry, CodecError> {
    entry_from_proto(entry).map(|entry| entry_to_proto(&entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_id(index: u64) -> LogId {
        LogId {
            leader_id: CommittedLeaderId::new(3),
            index,
        }
    }

    fn membership() -> Membership {
        Membership::new_with_defaults(vec![BTreeSet::from([1, 2]), BTreeSet::from([2, 3])], [4])
    }

    #[test]
    fn every_payload_comes_back_as_it_went() {
        let command = Proposal::from(bytes::Bytes::from("mint"));
        let payloads = [
            Payload::Blank,
            Payload::Normal(command),
            Payload::Membership(membership()),
        ];
        for payload in payloads {
            let entry = Entry {
                log_id: log_id(7),
                payload,
            };
            assert_eq!(entry_from_proto(entry_to_proto(&entry)).unwrap(), entry);
        }
    }

    #[test]
    fn an_entry_of_a_newer_format_is_refused() {
        let mut entry = entry_to_proto(&Entry {
            log_id: log_id(7),
            payload: Payload::Blank,
        });
        entry.format = 2;
        assert_eq!(entry_from_proto(entry), Err(CodecError::NewerFormat(2)));
    }

    #[test]
    fn an_entry_without_payload_is_refused() {
        let mut entry = entry_to_proto(&Entry {
            log_id: log_id(7),
            payload: Payload::Blank,
        });
        entry.payload = None;
        assert_eq!(entry_from_proto(entry), Err(CodecError::Missing("payload")));
    }

    #[test]
    fn a_voter_without_a_node_is_refused() {
        let mut message = membership_to_proto(&membership());
        message.nodes.remove(&3);
        assert!(matches!(
            membership_from_proto(message),
            Err(CodecError::Membership(_))
        ));
    }

    #[test]
    fn the_membership_before_any_comes_back() {
        let stored = StoredMembership::default();
        let message = stored_membership_to_proto(&stored);
        assert_eq!(stored_membership_from_proto(message).unwrap(), stored);
    }
}
