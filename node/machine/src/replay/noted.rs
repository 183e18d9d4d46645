//! Which calls of a session may have an outcome. Nearly every call is new, and to look for an outcome that is not there costs more than
//! to note each call in the session's row, which every call writes.

use helve_proto::command::v1::SessionRow;

/// Calls to a word.
const WORD_CALLS: u64 = u64::BITS as u64;

/// Begins to note calls of a session that has had some: those beyond the window are new.
pub(super) fn begin(row: &mut SessionRow, window_calls: u64) {
    row.noted_from = row.floor.saturating_add(window_calls);
}

/// Whether calls are noted.
pub(super) fn has_begun(row: &SessionRow) -> bool {
    row.noted_from > 0
}

/// Whether the outcome of a call at or above the floor has to be looked for.
pub(crate) fn may_have_outcome(row: &SessionRow, seq: u64) -> bool {
    let word = word(row, seq).and_then(|at| row.noted.get(at));
    !has_begun(row) || seq < row.noted_from || word.is_some_and(|word| word & bit(seq) != 0)
}

/// Notes a call that is admitted: it is in the window above the floor.
pub(super) fn note(row: &mut SessionRow, seq: u64) {
    if let Some(at) = word(row, seq) {
        row.noted.resize(row.noted.len().max(at + 1), 0);
        row.noted[at] |= bit(seq);
    }
}

/// Raises the floor, and drops what is below it.
pub(super) fn raise_floor(row: &mut SessionRow, floor: u64) {
    let below = floor / WORD_CALLS - row.floor / WORD_CALLS;
    let below = usize::try_from(below).unwrap_or(usize::MAX);
    row.noted.drain(..below.min(row.noted.len()));
    row.floor = floor;
}

/// `None` below the floor's word.
fn word(row: &SessionRow, seq: u64) -> Option<usize> {
    let at = (seq / WORD_CALLS).checked_sub(row.floor / WORD_CALLS)?;
    usize::try_from(at).ok()
}

fn bit(seq: u64) -> u64 {
    1 << (seq % WORD_CALLS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::limits::SESSION_WINDOW_CALLS_MAX;

    #[test]
    fn a_call_is_known_until_the_floor_passes_it() {
        let mut row = SessionRow {
            floor: 1,
            noted_from: 1,
            ..SessionRow::default()
        };
        let mut noted = BTreeSet::new();
        for step in 0..2_000_u64 {
            // Scattered over the window, and some of them twice.
            let seq = row.floor + step * 37 % SESSION_WINDOW_CALLS_MAX;
            note(&mut row, seq);
            noted.insert(seq);
            if step % 3 == 0 {
                let floor = row.floor + step % 150;
                raise_floor(&mut row, floor);
            }
            let window = row.floor..row.floor + 2 * SESSION_WINDOW_CALLS_MAX;
            for seq in window.step_by(11) {
                assert_eq!(may_have_outcome(&row, seq), noted.contains(&seq), "{seq}");
            }
            let words = SESSION_WINDOW_CALLS_MAX / WORD_CALLS + 1;
            assert!(row.noted.len() as u64 <= words, "{step}");
        }
        raise_floor(&mut row, u64::MAX);
        assert!(row.noted.is_empty());
    }

    #[test]
    fn of_a_row_that_noted_nothing_every_call_of_the_window_may_have_an_outcome() {
        let mut row = SessionRow {
            floor: 100,
            ..SessionRow::default()
        };
        assert!(may_have_outcome(&row, u64::MAX));
        begin(&mut row, SESSION_WINDOW_CALLS_MAX);
        let beyond = 100 + SESSION_WINDOW_CALLS_MAX;
        assert!(may_have_outcome(&row, 100) && may_have_outcome(&row, beyond - 1));
        assert!(!may_have_outcome(&row, beyond));
        raise_floor(&mut row, beyond);
        note(&mut row, beyond);
        assert!(may_have_outcome(&row, beyond) && !may_have_outcome(&row, beyond + 1));
    }
}
