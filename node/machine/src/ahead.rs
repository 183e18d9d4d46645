//! Which records commands will read, for a host whose rows may have to come from a slow disk: it can fetch them all at once before it
//! applies the commands one after the other.

use bytes::Bytes;
use helve_proto::{
    command::v1::{Command, command::Operation, resealed_record, touch::Record},
    v1::{TransactRequest, operation},
};

use crate::{
    batch::Batch,
    clock::clock,
    expiry,
    fault::Fault,
    handles::handle_name,
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

/// None of a mint: it names no record that is there.
fn targets(operation: &Operation) -> Vec<Result<Target, Unfit>> {
    let one = match operation {
        Operation::Put(r) => handle_name!(r).target(),
        Operation::Take(r) => handle_name!(r).target(),
        Operation::Renew(r) => handle_name!(r).target(),
        Operation::Delete(r) => handle_name!(r).target(),
        Operation::Claim(r) => handle_name!(r).target(),
        Operation::Store(r) => Target::key(&r.owner, &r.key),
        Operation::DeleteKey(r) => Target::key(&r.owner, &r.key),
        Operation::Touch(touch) => match &touch.record {
            Some(Record::Handle(r)) => handle_name!(r).target(),
            Some(Record::Key(r)) => Target::key(&r.owner, &r.key),
            None => return Vec::new(),
        },
        Operation::BatchStore(r) => {
            let items = r.items.iter();
            return items.map(|item| Target::key(&r.owner, &item.key)).collect();
        }
        Operation::Reseal(r) => {
            use resealed_record::Record;
            let records = r.records.iter().filter_map(|r| r.record.as_ref());
            let target = |record: &Record| match record {
                Record::Handle(r) => handle_name!(r).target(),
                Record::Key(r) => Target::key(&r.owner, &r.key),
            };
            return records.map(target).collect();
        }
        Operation::Transact(r) => return targets_of_parts(r),
        _ => return Vec::new(),
    };
    vec![one]
}

fn targets_of_parts(request: &TransactRequest) -> Vec<Result<Target, Unfit>> {
    use operation::Operation as Op;

    let parts = request.operations.iter();
    let parts = parts.filter_map(|part| part.operation.as_ref());
    parts
        .filter_map(|part| match part {
            Op::Put(op) => Some(handle_name!(op).target()),
            Op::Take(op) => Some(handle_name!(op).target()),
            Op::Renew(op) => Some(handle_name!(op).target()),
            Op::Delete(op) => Some(handle_name!(op).target()),
            Op::Store(op) => Some(Target::key(&op.owner, &op.key)),
            Op::DeleteKey(op) => Some(Target::key(&op.owner, &op.key)),
            Op::Mint(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
