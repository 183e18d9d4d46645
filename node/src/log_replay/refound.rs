//! Makes what one node holds a cluster of that node alone, while the node does not run.
//!
//! All that its log holds counts: what it knows to be committed, and what follows, which may have been acknowledged as well. The rows
//! take it up, name the new cluster and its one member, and the log ends behind them, as if a snapshot of them had been installed.

use std::{collections::BTreeMap, error::Error};

use bytes::Bytes;
use helve_machine::{Batch, cluster_row};
use helve_proto::peer::v1::{
    LogEntry, LogId, Membership, NodeRecord, StoredMembership, VoterSet, log_entry::Payload,
};
use prost::Message as _;

use super::{FutureRowsError, id, take};
use crate::{
    failpoint::{self, Failpoint},
    limits::GROUP_ID,
    raft::{codec, log_store::LogStore},
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
        next = id(end).index + 1;
        last = last.max_by_index(end.log_id);
        for entry in entries {
            if let Some(Payload::Membership(newer)) = entry.payload {
                membership = newer;
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
    state: &StateDb,
    cluster_id: &str,
    member: (u64, NodeRecord),
) -> Result<(), FutureRowsError> {
    let last = apply_all(log, state)?;
    failpoint::pass(Failpoint::RecoveryApplied);
    let (node_id, node) = member;
    let membership = StoredMembership {
        log_id: Some(last),
        membership: Some(Membership {
            configs: vec![VoterSet { ids: vec![node_id] }],
            nodes: [(node_id, node)].into(),
        }),
    };
    let (key, row) = cluster_row(GROUP_ID, cluster_id);
    state.write([(key, Some(row))], &last, Some(&membership))?;
    state.sync()?;
    failpoint::pass(Failpoint::RecoveryNamed);
    log.end_behind(&last, node_id).await?;
    failpoint::pass(Failpoint::RecoveryPurged);
    Ok(())
}

/// Applies what of the log is not applied yet, and returns the last entry.
fn apply_all(log: &LogStore, state: &StateDb) -> Result<LogId, FutureRowsError> {
    let mut applied = state.applied()?;
    loop {
        let next = applied.map_or(0, |id| id.index + 1);
        let entries = log.stored(next)?;
        let Some(end) = entries.last() else {
            let missing =
                || StorageError::damaged("the log", "neither it nor the rows hold an entry");
            return Ok(applied.ok_or_else(missing)?);
        };
        let last = id(end);
        apply_to(state, entries, &last)?;
        applied = Some(last);
    }
}

/// Applies archived entries that follow the rows, up to and including this one. Blocks.
///
/// # Errors
/// If an entry is none, or none that this version can apply, or the disk fails.
pub fn replay(state: &StateDb, entries: &[Bytes], upto: u64) -> Result<(), FutureRowsError> {
    let mut next = state.applied()?.map_or(0, |id| id.index) + 1;
    let mut due = Vec::new();
    for entry in entries {
        let unreadable =
            |error: &dyn Error| StorageError::unreadable(format!("archived entry {next}"), error);
        let entry = LogEntry::decode(entry.clone()).map_err(|error| unreadable(&error))?;
        let entry = codec::check_entry(entry).map_err(|error| unreadable(&error))?;
        if id(&entry).index == next && next <= upto {
            due.push(entry);
            next += 1;
        }
    }
    match due.last() {
        Some(last) => {
            let last = id(last);
            apply_to(state, due, &last)
        }
        None => Ok(()),
    }
}

fn apply_to(state: &StateDb, entries: Vec<LogEntry>, last: &LogId) -> Result<(), FutureRowsError> {
    let rows = state.read(|view| {
        let mut rows = Batch::new(view);
        for entry in entries {
            take(entry, &mut rows)?;
        }
        Ok::<_, FutureRowsError>(rows.finish()?)
    })?;
    Ok(state.write(rows, last, None)?)
}
