//! Outcomes that are kept for retries, and what is to be done with a call.

use bytes::Bytes;
use helve_proto::command::v1::{Outcome, OutcomeRow, Refusal};

use crate::{
    batch::Batch,
    context::Stop,
    fault::Fault,
    layout::Space,
    row,
    usage::{Counter, Delta},
    view::View,
};

const OUTCOMES: &str = "outcomes";

/// What is to be done with a command.
#[derive(Debug)]
pub(crate) enum Admission {
    Execute(Slot),
    /// It was executed before, and came to this.
    Answer(Box<Outcome>),
}

/// Where the outcome is to be kept.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Nowhere: a repeat does no harm.
    Nowhere,
    Session {
        session_id: Bytes,
        seq: u64,
    },
    Request {
        request_id: Bytes,
    },
}

/// The outcome that is kept under a key, if there is one.
pub(super) fn kept(
    view: &impl View,
    key: &[u8],
    fingerprint: &Bytes,
) -> Result<Option<Outcome>, Stop> {
    let Some(row) = row::read::<OutcomeRow>(view, OUTCOMES, key)? else {
        return Ok(None);
    };
    if row.fingerprint != *fingerprint {
        return Err(Stop::refused(Refusal::ReplayMismatch));
    }
    let outcome = row
        .outcome
        .ok_or(Fault::Corrupt("an outcome row has no outcome"))?;
    Ok(Some(outcome))
}

/// Answers how many bytes its value takes.
pub(super) fn put_outcome<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    key: Bytes,
    row: &OutcomeRow,
) -> Result<usize, Fault> {
    let value = row::encode(row);
    let bytes = value.len();
    let delta = Delta::between(None, Some(key.len() + bytes)).bytes_only();
    batch.count(space, Counter::Tenant, delta, || key.clone())?;
    // Admission has looked.
    batch.put_new(key, value);
    Ok(bytes)
}

/// Deletes an outcome whose value takes this many bytes.
pub(super) fn delete_outcome<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    key: Bytes,
    bytes: usize,
) -> Result<(), Fault> {
    let delta = Delta::between(Some(key.len() + bytes), None).bytes_only();
    batch.count(space, Counter::Tenant, delta, || key.clone())?;
    batch.delete(key);
    Ok(())
}
