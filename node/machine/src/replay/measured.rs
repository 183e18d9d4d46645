//! How many bytes each outcome of a session takes. An outcome may hold megabytes that a call took: to forget it, and to count what
//! that frees, no reader needs them.

use helve_proto::command::v1::SessionRow;

/// Begins to measure in a session that has outcomes: those of calls beyond the window are not there yet.
pub(super) fn begin(row: &mut SessionRow, window_calls: u64) {
    row.measured_from = row.floor.saturating_add(window_calls);
}

/// Whether outcomes are measured.
pub(super) fn has_begun(row: &SessionRow) -> bool {
    row.measured_from > 0
}

/// Whether all outcomes that the session may have are measured.
pub(super) fn is_whole(row: &SessionRow) -> bool {
    has_begun(row) && row.measured_from <= row.floor
}

/// What the outcome of a call at or above the floor takes, 0 if none is kept; `None` if it was kept before outcomes were measured.
pub(crate) fn bytes(row: &SessionRow, seq: u64) -> Option<u32> {
    let is_measured = has_begun(row) && seq >= row.measured_from;
    is_measured.then(|| {
        let bytes = place(row, seq).and_then(|at| row.outcome_bytes.get(at));
        bytes.copied().unwrap_or_default()
    })
}

/// Notes what the outcome of a call takes that was admitted, and so is in the window behind the floor.
pub(super) fn note(row: &mut SessionRow, seq: u64, bytes: usize) {
    if !has_begun(row) || seq < row.measured_from {
        return;
    }
    if let Some(at) = place(row, seq) {
        row.outcome_bytes
            .resize(row.outcome_bytes.len().max(at + 1), 0);
        row.outcome_bytes[at] = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
}

/// Drops what is below a floor that is about to be raised to this.
pub(super) fn drop_below(row: &mut SessionRow, floor: u64) {
    let below = usize::try_from(floor - row.floor).unwrap_or(usize::MAX);
    row.outcome_bytes
        .drain(..below.min(row.outcome_bytes.len()));
}

/// The calls whose outcomes are kept, and what each takes, from the floor on.
pub(super) fn kept(row: &SessionRow) -> impl Iterator<Item = (u64, u32)> + '_ {
    let numbered = (row.floor..).zip(&row.outcome_bytes);
    numbered
        .filter(|(_, bytes)| **bytes > 0)
        .map(|(seq, bytes)| (seq, *bytes))
}

/// `None` below the floor.
fn place(row: &SessionRow, seq: u64) -> Option<usize> {
    usize::try_from(seq.checked_sub(row.floor)?).ok()
}
