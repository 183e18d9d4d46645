//! Which records commands will read, for a host whose rows may have to come from a slow disk: it can fetch them all at once before it
//! applies the commands one after the other.

use bytes::Bytes;
use helve_proto::{
    command::v1::{Command, command::Operation},
    operations::Named,
};

use crate::{
    batch::Batch,
    clock::clock,
    expiry,
    fault::Fault,
    layout::{Space, Target, Unfit},
    limits::{ROWS_AHEAD_MAX, SWEEP_ROWS, TICK_ROWS_MAX},
    view::View,
};

/// The keys of the records that these commands name, or remove because they are due, as far as the rows tell before the first is
/// applied; at most [`ROWS_AHEAD_MAX`]. To read them changes no outcome, and what a command reads besides, it finds itself.
///
/// # Errors
/// A fault if the deadline index cannot be read.
pub fn records_ahead<'c, V: View>(
    group_id: u32,
    commands: impl IntoIterator<Item = &'c Command>,
    batch: &mut Batch<V>,
) -> Result<Vec<Bytes>, Fault> {
    let mut clock_ms = clock(batch, group_id)?;
    let (mut removed, mut by_ms) = (0, 0);
    let mut keys = Vec::new();
    for command in commands {
        clock_ms = clock_ms.max(command.proposed_at_ms);
        let is_tenant_fit = u8::try_from(command.tenant.len()).is_ok();
        if let Some(operation) = command.operation.as_ref().filter(|_| is_tenant_fit) {
            let space = Space {
                group_id,
                tenant: &command.tenant,
            };
            // One that does not fit a key is refused when its turn comes.
            let targets = targets(operation).into_iter().flatten();
            keys.extend(targets.map(|target| space.record(&target)));
            let (rows_max, due_by_ms) = match operation {
                Operation::Tick(tick) => (tick.rows_max.min(TICK_ROWS_MAX), clock_ms),
                _ => match expiry::swept_beside(batch, group_id, clock_ms)? {
                    Some(beside_ms) => (SWEEP_ROWS, beside_ms),
                    None => (0, 0),
                },
            };
            removed += rows_max as usize;
            by_ms = by_ms.max(due_by_ms);
        }
    }
    keys.truncate(ROWS_AHEAD_MAX);
    let left = ROWS_AHEAD_MAX - keys.len();
    keys.extend(expiry::due_records(
        batch,
        group_id,
        by_ms,
        left.min(removed),
    )?);
    Ok(keys)
}

fn targets(operation: &Operation) -> Vec<Result<Target, Unfit>> {
    match operation {
        Operation::Touch(touch) => {
            let record = touch.record.iter();
            record.filter_map(|record| target(record.named())).collect()
        }
        Operation::BatchStore(r) => {
            let items = r.items.iter();
            items.map(|item| Target::key(&r.owner, &item.key)).collect()
        }
        Operation::Reseal(r) => {
            let records = r.records.iter().filter_map(|r| r.record.as_ref());
            records
                .filter_map(|record| target(record.named()))
                .collect()
        }
        Operation::Transact(r) => {
            let parts = r.operations.iter().filter_map(|o| o.operation.as_ref());
            parts.filter_map(|part| target(part.named())).collect()
        }
        one => one.named().and_then(target).into_iter().collect(),
    }
}

/// None of a mint: it names no record that is there.
fn target(named: Named<'_>) -> Option<Result<Target, Unfit>> {
    match named {
        Named::Handle { store, owner, id } => Some(Target::handle(store, owner, id)),
        Named::Key { owner, key } => Some(Target::key(owner, key)),
        Named::Minted { .. } => None,
    }
}

#[cfg(test)]
mod tests;
