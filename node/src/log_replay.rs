//! The rows as the log will make them. What is applied reaches the disk later than what it comes from, so after a crash the rows alone
//! may be silent about what a start must know before it serves or votes.

pub mod refound;

use helve_machine::{Batch, Context, Fault, View, apply};
use helve_proto::{
    command::v1::Command,
    peer::v1::{LogEntry, LogId, log_entry::Payload},
};
use prost::Message;

use crate::{
    apply::Unapplied,
    limits::GROUP_ID,
    raft::log_store::LogStore,
    storage::{error::StorageError, state_db::StateDb, state_view::StateView},
};

/// Why the rows to come cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum FutureRowsError {
    /// The log or the rows cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A command cannot be applied.
    #[error(transparent)]
    Unapplied(#[from] Unapplied),
    /// The rows cannot be read.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Shows the rows as they will be once all of the log is applied, what is not committed yet
/// included. Nothing is written. Blocks, for as long as applying takes; for a log that is not
/// written to.
///
/// # Errors
/// See [`FutureRowsError`].
pub fn read_future_rows<R>(
    log: &LogStore,
    state: &StateDb,
    look: impl FnOnce(&Batch<&StateView<'_>>) -> R,
) -> Result<R, FutureRowsError> {
    state.read(|view| {
        let mut rows = Batch::new(view);
        let mut next = view.applied()?.map_or(0, |id| id.index + 1);
        loop {
            let entries = log.stored(next)?;
            let Some(last) = entries.last() else {
                return Ok(look(&rows));
            };
            next = id(last).index + 1;
            for entry in entries {
                take(entry, &mut rows)?;
            }
        }
    })
}

/// The log id of an entry, which every entry of a log has.
fn id(entry: &LogEntry) -> LogId {
    entry.log_id.unwrap_or_default()
}

/// Applies one entry to rows.
///
/// # Errors
/// See [`FutureRowsError`].
fn take<V: View>(entry: LogEntry, rows: &mut Batch<V>) -> Result<(), FutureRowsError> {
    let index = id(&entry).index;
    if let Some(Payload::Command(command)) = entry.payload {
        let command = Command::decode(command).map_err(|e| {
            StorageError::unreadable(format!("the command of log entry {index}"), &e)
        })?;
        let context = Context {
            group_id: GROUP_ID,
            index,
        };
        apply(&context, &command, rows).map_err(|fault| Unapplied { index, fault })?;
    }
    Ok(())
}
