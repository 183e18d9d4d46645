//! How values must be sealed at rest. The machine never looks inside a value: it keeps under which key each is sealed, refuses what
//! is sealed otherwise than the cluster says, and replaces sealed bytes without touching anything else.

use bytes::Bytes;
use helve_proto::command::v1::{
    Command, EndSealing, Refusal, Reseal, Resealed, ResealedRecord, SealingRow, SetSealing,
    command::Operation, resealed_record,
};

use crate::{
    context::{Call, Stop},
    fault::Fault,
    layout::{Group, Target},
    level,
    limits::{FORMER_KEYS_MAX, RESEAL_RECORDS_MAX},
    record, row,
    view::View,
};

#[cfg(test)]
mod tests;
mod walk;

pub use walk::{Found, Name, Tally, Walk, tally, walk};

/// How values must be sealed; `None`: no command ever said, so they are not.
///
/// # Errors
/// A fault if the row cannot be read.
pub fn sealing(view: &impl View, group_id: u32) -> Result<Option<SealingRow>, Fault> {
    row::read(view, "sealing", &Group(group_id).sealing())
}

/// Whether an operation brings a value.
#[must_use]
pub fn brings_value(operation: &Operation) -> bool {
    operation.facts().value.is_brought(operation)
}

/// Refuses values that are sealed otherwise than the cluster says by now: after a change of the key, none comes under the old one.
pub(crate) fn admit<V: View>(call: &Call<'_, V>, command: &Command) -> Result<(), Stop> {
    if !command.operation.as_ref().is_some_and(brings_value) {
        return Ok(());
    }
    let row = sealing(call.batch, call.space.group_id)?.unwrap_or_default();
    if row.key_id == command.sealed_under {
        return Ok(());
    }
    Err(refused(Refusal::Sealing, &row))
}

fn refused(refusal: Refusal, row: &SealingRow) -> Stop {
    Stop::Refused {
        refusal,
        revision: row.index,
        operation: 0,
    }
}

/// Changes the key, or ends sealing. The fingerprint secret outlives that.
pub(crate) fn set<V: View>(
    call: &mut Call<'_, V>,
    request: &SetSealing,
) -> Result<SealingRow, Stop> {
    let before = sealing(call.batch, call.space.group_id)?.unwrap_or_default();
    if before.index != request.if_index {
        return Err(refused(Refusal::Conflict, &before));
    }
    let former_key_ids = former(call, &before, &request.key_id)?;
    let (secret, secret_key_id) = if request.key_id.is_empty() {
        (before.secret, before.secret_key_id)
    } else {
        (request.secret.clone(), request.key_id.clone())
    };
    let row = SealingRow {
        key_id: request.key_id.clone(),
        secret,
        secret_key_id,
        index: call.index,
        done: false,
        // Once values may be plain again, some will be.
        complete_index: if request.key_id.is_empty() {
            0
        } else {
            before.complete_index
        },
        former_key_ids,
    };
    let key = call.space.group().sealing();
    call.batch.put(key, row::encode(&row));
    Ok(row)
}

/// Returns the ids of the keys that sealed before, once this one does: after its last value is gone, nothing else tells a retired key
/// from a new one.
fn former<V: View>(
    call: &Call<'_, V>,
    before: &SealingRow,
    key_id: &Bytes,
) -> Result<Vec<Bytes>, Fault> {
    let mut former = before.former_key_ids.clone();
    if level::feature_level(call.batch, call.space.group_id)? < level::FORMER_KEYS {
        return Ok(former);
    }
    former.push(before.key_id.clone());
    former.retain(|id| !id.is_empty() && id != key_id);
    let excess = former.len().saturating_sub(FORMER_KEYS_MAX);
    former.drain(..excess);
    Ok(former)
}

/// Notes that the walk which follows a change has come to its end.
pub(crate) fn end<V: View>(
    call: &mut Call<'_, V>,
    request: EndSealing,
) -> Result<SealingRow, Stop> {
    let mut row = sealing(call.batch, call.space.group_id)?.unwrap_or_default();
    if row.index != request.index || row.index == 0 {
        return Err(refused(Refusal::Conflict, &row));
    }
    row.done = true;
    if call.is_mended()? {
        note_complete(call, &mut row);
    }
    let key = call.space.group().sealing();
    call.batch.put(key, row::encode(&row));
    Ok(row)
}

/// From here on every record is sealed, if the walk that followed the last change has come to its end.
fn note_complete<V: View>(call: &Call<'_, V>, row: &mut SealingRow) {
    if row.done && !row.key_id.is_empty() && row.complete_index == 0 {
        row.complete_index = call.index;
    }
}

/// The level is raised to one that knows from where on every record is sealed.
pub(crate) fn raised<V: View>(call: &mut Call<'_, V>) -> Result<(), Fault> {
    if let Some(old) = sealing(call.batch, call.space.group_id)? {
        let mut row = old.clone();
        note_complete(call, &mut row);
        if row != old {
            let key = call.space.group().sealing();
            call.batch.put(key, row::encode(&row));
        }
    }
    Ok(())
}

/// Replaces the bytes of records that have not changed since they were read.
pub(crate) fn reseal<V: View>(call: &mut Call<'_, V>, request: &Reseal) -> Result<Resealed, Stop> {
    let mut replaced = 0;
    for record in request.records.iter().take(RESEAL_RECORDS_MAX) {
        replaced += u32::from(replace(call, record)?);
    }
    Ok(Resealed { replaced })
}

fn replace<V: View>(call: &mut Call<'_, V>, resealed: &ResealedRecord) -> Result<bool, Stop> {
    use resealed_record::Record;
    let target = match &resealed.record {
        Some(Record::Handle(handle)) => Target::handle(&handle.store, &handle.owner, &handle.id)?,
        Some(Record::Key(key)) => Target::key(&key.owner, &key.key)?,
        None => return Err(Stop::refused(Refusal::Malformed)),
    };
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    let Some(row) = seen.live().filter(|row| row.revision == resealed.revision) else {
        return Ok(false);
    };
    let mut row = row.clone();
    row.value.clone_from(&resealed.value);
    row.sealed_under.clone_from(call.sealed_under);
    record::write(call.batch, call.space, &target, &seen, &row)?;
    Ok(true)
}
