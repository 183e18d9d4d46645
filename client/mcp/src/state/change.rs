//! Changes, and what they would destroy.
//!
//! Unless the operator lets everything pass, a value that is there is replaced only if the call names its revision, or the user
//! confirmed the loss of that very revision, and deleted only if the user confirmed: each change is one transaction that holds only if all its keys are as they were when the user was asked,
//! or when they were found absent.

use std::collections::HashSet;

use helve_client::{
    Committed, Error, ErrorKind, RecordInfo, Transacted, Ttl,
    v1::{OperationReply, WriteStatus},
};
use serde_json::Value;

use super::{
    answers::{Deleted, Status, Stored, StoredBatch},
    arguments::{BatchStore, Delete, Store, check_batch},
    call::Call,
    error::ToolError,
    reads::look,
};

/// How often a change that others overtook is decided again.
const ROUNDS_MAX: usize = 8;

/// What is to become of one key.
pub(super) struct Change {
    pub(super) key: String,
    edit: Edit,
    /// The caller's own condition.
    if_revision: Option<u64>,
}

enum Edit {
    Store { value: Value, ttl: Ttl },
    Delete,
}

/// Whether what is there may be replaced and deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Consent {
    /// The operator says so, for all calls.
    Assumed,
    /// No user was asked.
    Missing,
    /// The user says so, for keys at these revisions, in the order of the changes; 0: absent.
    Given(Vec<u64>),
}

/// What a change came to.
pub(super) enum Outcome {
    /// It took effect; one reply for each key.
    Done(Vec<OperationReply>),
    /// There was nothing to delete.
    Nothing,
    /// It needs consent to the loss of these, in the order of the changes; those that are absent lose nothing.
    Asks(Vec<Option<RecordInfo>>),
}

/// The change that a `store` asks for.
pub(super) fn of_store(store: Store) -> Result<Change, ToolError> {
    let ttl = store.ttl()?;
    Ok(Change {
        key: store.key,
        if_revision: store.if_revision,
        edit: Edit::Store {
            value: store.value,
            ttl,
        },
    })
}

/// The changes that a `batch_store` asks for.
pub(super) fn of_batch(BatchStore { items }: BatchStore) -> Result<Vec<Change>, ToolError> {
    check_batch("items", items.len())?;
    let mut keys = HashSet::new();
    if let Some(twice) = items.iter().find(|item| !keys.insert(item.key.as_str())) {
        return Err(ToolError::bad_argument(format!(
            "{:?} occurs in two items",
            twice.key
        )));
    }
    items.into_iter().map(of_store).collect()
}

/// The change that a `delete` asks for.
pub(super) fn of_delete(Delete { key, if_revision }: Delete) -> Change {
    Change {
        key,
        if_revision,
        edit: Edit::Delete,
    }
}

impl Change {
    /// Whether it may lose what the caller has not seen: a replacement of the revision that it names loses what was read. A deletion
    /// leaves nothing in its place, so it always may.
    fn needs_consent(&self) -> bool {
        !(matches!(self.edit, Edit::Store { .. }) && self.if_revision.is_some())
    }

    /// What the user is told of it: a verb.
    pub(super) fn verb(&self) -> &'static str {
        match self.edit {
            Edit::Store { .. } => "Replace",
            Edit::Delete => "Delete",
        }
    }
}

/// Carries all changes out, or none.
pub(super) async fn carry_out(
    call: &Call,
    changes: &[Change],
    consent: &Consent,
) -> Result<Outcome, ToolError> {
    if *consent == Consent::Assumed {
        let asked = changes.iter().map(|change| change.if_revision);
        return match commit(call, changes, asked).await {
            Ok(done) => Ok(Outcome::Done(done.replies)),
            Err(error) => Err(conflict(changes, error)),
        };
    }
    for _ in 0..ROUNDS_MAX {
        let mut found = Vec::with_capacity(changes.len());
        for change in changes {
            let info = look(call, &change.key)
                .await?
                .and_then(|record| record.info);
            check_condition(change, revision(info.as_ref()))?;
            found.push(info);
        }
        let revisions: Vec<u64> = found.iter().map(|info| revision(info.as_ref())).collect();
        let is_new = revisions.iter().all(|revision| *revision == 0);
        if is_new
            && changes
                .iter()
                .all(|change| matches!(change.edit, Edit::Delete))
        {
            return Ok(Outcome::Nothing);
        }
        let is_asked = changes
            .iter()
            .zip(&revisions)
            .any(|(change, revision)| *revision != 0 && change.needs_consent());
        if is_asked && *consent != Consent::Given(revisions.clone()) {
            return Ok(Outcome::Asks(found));
        }
        match commit(call, changes, revisions.into_iter().map(Some)).await {
            Ok(done) => return Ok(Outcome::Done(done.replies)),
            // Somebody changed one of them since: look again.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ToolError::Contended)
}

fn revision(info: Option<&RecordInfo>) -> u64 {
    info.map_or(0, |info| info.revision)
}

fn check_condition(change: &Change, revision: u64) -> Result<(), ToolError> {
    match change.if_revision {
        Some(asked) if asked != revision => Err(ToolError::Conflict {
            key: change.key.clone(),
            revision,
        }),
        _ => Ok(()),
    }
}

/// The caller's own condition does not hold.
fn conflict(changes: &[Change], error: Error) -> ToolError {
    if let ErrorKind::Conflict {
        revision,
        operation,
    } = error.kind()
        && let Some(change) = usize::try_from(operation)
            .ok()
            .and_then(|at| changes.get(at))
    {
        return ToolError::Conflict {
            key: change.key.clone(),
            revision,
        };
    }
    error.into()
}

async fn commit(
    call: &Call,
    changes: &[Change],
    conditions: impl IntoIterator<Item = Option<u64>>,
) -> Result<Committed, Error> {
    let keys = call.keys();
    let mut transaction = call.client().transaction();
    for (change, condition) in changes.iter().zip(conditions) {
        transaction = match &change.edit {
            Edit::Store { value, ttl } => transaction.store(&keys, &change.key, value, *ttl),
            Edit::Delete => transaction.delete_key(&keys, &change.key),
        };
        if let Some(revision) = condition {
            transaction = transaction.if_revision(revision);
        }
    }
    match transaction.commit().await? {
        Transacted::Committed(committed) if committed.replies.len() == changes.len() => {
            Ok(committed)
        }
        Transacted::Committed(_) | Transacted::Aborted { .. } => Err(Error::new(
            ErrorKind::Internal,
            "a transaction over keys alone was answered as none is",
        )),
    }
}

/// What a `store` answers.
pub(super) fn stored(reply: OperationReply) -> Result<Stored, ToolError> {
    let status = match reply.status() {
        WriteStatus::Created => Status::Created,
        WriteStatus::Replaced => Status::Replaced,
        _ => return Err(ToolError::Internal),
    };
    let info = reply.info.ok_or(ToolError::Internal)?.into();
    Ok(Stored { status, info })
}

/// What a `batch_store` answers.
pub(super) fn stored_batch(replies: Vec<OperationReply>) -> Result<StoredBatch, ToolError> {
    let stored = replies.into_iter().map(stored);
    Ok(StoredBatch {
        stored: stored.collect::<Result<_, _>>()?,
    })
}

/// What a `delete` answers; without replies there was nothing to delete.
pub(super) fn deleted(key: String, replies: &[OperationReply]) -> Deleted {
    let existed = replies
        .iter()
        .any(|reply| reply.status() == WriteStatus::Replaced);
    Deleted { key, existed }
}
