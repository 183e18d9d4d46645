//! Makes what one node holds a cluster of that node alone, while the node does not run.
//!
//! All that its log holds counts: what it knows to be committed, and what follows, which may have been acknowledged as well. The rows
//! take it up, name the new cluster and its one member, and the log ends behind them, as if a snapshot of them had been installed.

use std::{collections::BTreeMap, io};

use helve_machine::{Batch, cluster_row};
use helve_proto::peer::v1::{LogId, Membership, NodeRecord, StoredMembership, VoterSet};
use openraft::{RaftLogReader as _, storage::RaftLogStorage as _};

use super::{
    codec,
    foresight::{Unforeseen, take},
    log_store::{LogStore, PurgeGate},
    types::{Payload, Vote},
};
use crate::{
    failpoint::{self, Failpoint},
    limits::GROUP_ID,
    storage::{error::StorageError, state_db::StateDb},
};

/// What a node holds.
#[derive(Debug)]
pub struct Holding {
    /// The last entry of its log.
    pub last: LogId,
    /// The last entry that it knows to be committed.
    pub committed: u64,
    /// The members that its log and rows know, and whether each votes.
    pub members: BTreeMap<u64, (NodeRecord, bool)>,
}

/// Looks at what a node holds; `None` if that is nothing. Blocks.
///
/// # Errors
/// If the log or the rows cannot be read, or entries between them are gone.
pub fn survey(log: &LogStore, state: &StateDb) -> Result<Option<Holding>, StorageError> {
    let applied = state.applied()?;
    log.check_reaches(applied.map_or(0, |id| id.index))?;
    let mut membership = state
        .membership()?
        .and_then(|stored| stored.membership)
        .unwrap_or_default();
    let mut last = applied.max_by_index(log.last());
    let mut next = applied.map_or(0, |id| id.index + 1);
    loop {
        let entries = log.stored(next)?;
        let Some(end) = entries.last() else { break };
        next = end.log_id.index + 1;
        last = last.max_by_index(Some(codec::log_id_to_proto(&end.log_id)));
        for entry in &entries {
            if let Payload::Membership(newer) = &entry.payload {
                membership = codec::membership_to_proto(newer);
            }
        }
    }
    let Some(last) = last else { return Ok(None) };
    let known = applied.map_or(0, |id| id.index);
    Ok(Some(Holding {
        last,
        committed: log.committed().unwrap_or(0).max(known),
        members: voting(membership),
    }))
}

trait ByIndex {
    fn max_by_index(self, other: Self) -> Self;
}

impl ByIndex for Option<LogId> {
    fn max_by_index(self, other: Self) -> Self {
        let index = |id: &Option<LogId>| id.as_ref().map(|id| id.index);
        if index(&other) > index(&self) {
            other
        } else {
            self
        }
    }
}

fn voting(membership: Membership) -> BTreeMap<u64, (NodeRecord, bool)> {
    let Membership { configs, nodes } = membership;
    let votes = |id: &u64| configs.iter().any(|set| set.ids.contains(id));
    nodes
        .into_iter()
        .map(|(id, node)| (id, (node, votes(&id))))
        .collect()
}

/// Applies the whole log, and makes the rows those of a cluster with this id and this one member. Blocks. Cut short, it can be done again.
///
/// # Errors
/// If the log holds what this version cannot apply, or the disk fails.
pub async fn refound(
    log: &mut LogStore,
    gate: &PurgeGate,
    state: &StateDb,
    cluster_id: &str,
    member: (u64, NodeRecord),
) -> Result<(), Unforeseen> {
    let last = apply_all(log, state)?;
    failpoint::pass(Failpoint::RecoveryApplied);
    let (id, node) = member;
    let membership = StoredMembership {
        log_id: Some(last),
        membership: Some(Membership {
            configs: vec![VoterSet { ids: vec![id] }],
            nodes: [(id, node)].into(),
        }),
    };
    let (key, row) = cluster_row(GROUP_ID, cluster_id);
    state.write([(key, Some(row))], &last, Some(&membership))?;
    state.sync()?;
    failpoint::pass(Failpoint::RecoveryNamed);
    raise_term(log, last.term, id).await?;
    gate.advance(last.index);
    let purged = log.purge(codec::log_id_from_proto(&last)).await;
    purged.map_err(|source| of_log("purge", source))?;
    log.barrier().await?;
    failpoint::pass(Failpoint::RecoveryPurged);
    Ok(())
}

/// Sees to it that the next leader's term is above that of the last entry. The log of a restored
/// node is new and holds no vote: its first leader would take a term that entries have already, and
/// count them as its own.
async fn raise_term(log: &mut LogStore, term: u64, id: u64) -> Result<(), StorageError> {
    let held = log.read_vote().await;
    let held = held.map_err(|source| of_log("read", source))?;
    if held.is_some_and(|vote| vote.leader_id.term >= term) {
        return Ok(());
    }
    let saved = log.save_vote(&Vote::new(term, id)).await;
    saved.map_err(|source| of_log("write", source))
}

fn of_log(action: &'static str, source: io::Error) -> StorageError {
    StorageError::Io {
        action,
        path: "the log".into(),
        source,
    }
}

/// Applies what of the log is not applied yet, and returns the last entry.
fn apply_all(log: &LogStore, state: &StateDb) -> Result<LogId, Unforeseen> {
    let mut applied = state.applied()?;
    loop {
        let next = applied.map_or(0, |id| id.index + 1);
        let entries = log.stored(next)?;
        let Some(end) = entries.last() else {
            let missing =
                || StorageError::damaged("the log", "neither it nor the rows hold an entry");
            return Ok(applied.ok_or_else(missing)?);
        };
        let last = codec::log_id_to_proto(&end.log_id);
        let rows = state.read(|view| {
            let mut rows = Batch::new(view);
            for entry in entries {
                take(entry, &mut rows)?;
            }
            Ok::<_, Unforeseen>(rows.finish()?)
        })?;
        state.write(rows, &last, None)?;
        applied = Some(last);
    }
}
