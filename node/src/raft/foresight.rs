//! The rows as the log will make them. What is applied reaches the disk later than what it comes from, so after a crash the rows alone
//! may be silent about what a start must know before it serves or votes.

use helve_machine::{Batch, Context, Fault, View, apply};
use helve_proto::command::v1::Command;
use prost::Message;

use super::{
    log_store::LogStore,
    types::{Entry, Payload},
    unapplied::Unapplied,
};
use crate::{
    limits::GROUP_ID,
    storage::{error::StorageError, state_db::StateDb, state_view::StateView},
};

/// Why the rows to come cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum Unforeseen {
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
/// See [`Unforeseen`].
pub fn foresee<R>(
    log: &LogStore,
    state: &StateDb,
    look: impl FnOnce(&Batch<&StateView<'_>>) -> R,
) -> Result<R, Unforeseen> {
    state.read(|view| {
        let mut rows = Batch::new(view);
        let mut next = view.applied()?.map_or(0, |id| id.index + 1);
        loop {
            let entries = log.stored(next)?;
            let Some(last) = entries.last() else {
                return Ok(look(&rows));
            };
            next = last.log_id.index + 1;
            for entry in entries {
                take(entry, &mut rows)?;
            }
        }
    })
}

/// Applies one entry to rows.
///
/// # Errors
/// See [`Unforeseen`].
pub(super) fn take<V: View>(entry: Entry, rows: &mut Batch<V>) -> Result<(), Unforeseen> {
    let index = entry.log_id.index;
    if let Payload::Normal(proposal) = entry.payload {
        let command = Command::decode(proposal.command).map_err(|e| {
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
