//! One of the ways in which some records' history may have been, and what agrees with it.

use std::collections::HashMap;

use helve_client::v1::RecordInfo;

use super::told::Heard;
use crate::model::{Act, Cell, Name, Row, Said, Span};

/// The revision of a write that was not seen.
pub(super) const UNSEEN: u64 = 1 << 62;

/// One way in which it may have been.
#[derive(Debug, Clone)]
pub(super) struct PossibleState {
    /// What is stored under each name.
    pub(super) records: Vec<PossibleRecord>,
    /// The mutations of unknown outcome that took effect, by their numbers, in order.
    pub(super) used: Vec<usize>,
    /// Of the conflicts that may stand here, those that it has explained, in order.
    pub(super) explained: Vec<usize>,
}

/// What is stored under a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct PossibleRecord {
    pub(super) cell: Cell,
    /// Of a write that was not seen: those revisions that a call named, and that it may have.
    pub(super) perhaps: Vec<u64>,
}

impl PossibleState {
    /// The possible state in which nothing was ever done to this many records.
    pub(super) fn new(records: usize) -> Self {
        Self {
            records: vec![PossibleRecord::default(); records],
            used: Vec::new(),
            explained: Vec::new(),
        }
    }

    pub(super) fn has_used(&self, mutation: usize) -> bool {
        self.used.binary_search(&mutation).is_ok()
    }

    pub(super) fn uses(&mut self, mutation: usize) {
        if let Err(place) = self.used.binary_search(&mutation) {
            self.used.insert(place, mutation);
        }
    }

    pub(super) fn explains(&mut self, conflict: usize) {
        if let Err(place) = self.explained.binary_search(&conflict) {
            self.explained.insert(place, conflict);
        }
    }

    /// The same, with a conflict done with; `None` if it has not explained it.
    pub(super) fn rid_of(&self, conflict: usize) -> Option<Self> {
        let place = self.explained.binary_search(&conflict).ok()?;
        let mut state = self.clone();
        state.explained.remove(place);
        Some(state)
    }

    /// Whatever may become of the other may become of this one, which holds the same: it still has all mutations before it that the other
    /// has, and explained what that did.
    fn covers(&self, other: &Self) -> bool {
        is_within(&self.used, &other.used) && is_within(&other.explained, &self.explained)
    }

    /// The same, but for what is stored in one place.
    pub(super) fn with(&self, place: usize, cell: Cell) -> Self {
        let mut state = self.clone();
        let records = &mut state.records[place];
        if !is_unseen(&cell) {
            records.perhaps.clear();
        }
        records.cell = cell;
        state
    }
}

/// Whether what was written there was never seen.
pub(super) fn is_unseen(cell: &Cell) -> bool {
    cell.row().is_some_and(|row| row.revision == UNSEEN)
}

/// Possible states, but of those that hold the same only one.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    places: HashMap<Vec<PossibleRecord>, Vec<usize>>,
    possible_states: Vec<Option<PossibleState>>,
    len: usize,
}

impl Distinct {
    /// Whether the possible state is new.
    pub(super) fn insert(&mut self, state: PossibleState) -> bool {
        let alike = match self.places.get_mut(&state.records) {
            Some(alike) => alike,
            None => self.places.entry(state.records.clone()).or_default(),
        };
        let known = alike
            .iter()
            .filter_map(|place| self.possible_states[*place].as_ref());
        if known.into_iter().any(|known| known.covers(&state)) {
            return false;
        }
        alike.retain(|place| {
            let is_left = self.possible_states[*place]
                .as_ref()
                .is_some_and(|known| !state.covers(known));
            if !is_left {
                self.possible_states[*place] = None;
                self.len -= 1;
            }
            is_left
        });
        alike.push(self.possible_states.len());
        self.possible_states.push(Some(state));
        self.len += 1;
        true
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The possible state that came as this one, counted from 0, if no other represents it; `None` after the
    /// last.
    pub(super) fn get(&self, number: usize) -> Option<Option<&PossibleState>> {
        self.possible_states.get(number).map(Option::as_ref)
    }

    pub(super) fn into_states(self) -> Vec<PossibleState> {
        self.possible_states.into_iter().flatten().collect()
    }
}

/// This many of these possible states: of each that holds something else the one that gets there with the
/// fewest mutations, then the next ones.
pub(super) fn fewest(possible_states: Vec<PossibleState>, most: usize) -> Vec<PossibleState> {
    let mut by_standing: HashMap<Vec<PossibleRecord>, Vec<PossibleState>> = HashMap::new();
    for state in possible_states {
        let alike = by_standing.entry(state.records.clone()).or_default();
        alike.push(state);
    }
    let mut ranked = Vec::new();
    for mut alike in by_standing.into_values() {
        alike.sort_by(|one, other| {
            (one.used.len(), &one.used).cmp(&(other.used.len(), &other.used))
        });
        ranked.extend(alike.into_iter().enumerate());
    }
    ranked.sort_by(|(rank, one), (other_rank, other)| {
        let (one, other) = (&one.used, &other.used);
        (rank, one.len(), one).cmp(&(other_rank, other.len(), other))
    });
    ranked.truncate(most);
    ranked.into_iter().map(|(_, state)| state).collect()
}

/// Whether all of the one are in the other; both are in order.
fn is_within(one: &[usize], other: &[usize]) -> bool {
    let mut others = other.iter();
    one.iter()
        .all(|mutation| others.any(|other| other == mutation))
}

/// One of each.
pub(super) fn distinct(possible_states: Vec<PossibleState>) -> Vec<PossibleState> {
    if possible_states.len() < 2 {
        return possible_states;
    }
    let mut distinct = Distinct::default();
    for state in possible_states {
        distinct.insert(state);
    }
    distinct.into_states()
}

/// Whether what the model says of a part may be told so.
pub(super) fn agrees(name: &Name, act: &Act, said: &Said, heard: &Heard<'_>) -> bool {
    match (said, heard) {
        (Said::Done { .. }, Heard::Ready | Heard::Shown) => true,
        (Said::NotLive(said), Heard::NotLive(heard)) => said == heard,
        (
            Said::Done { existed, row },
            Heard::Done {
                existed: told,
                info,
                value,
            },
        ) => {
            let is_row = |row: &Row| info.is_some_and(|info| row.may_be_told(name, info));
            let is_value = |row: &Row| match value {
                Some(value) => **value == row.value,
                None => row.value.is_empty(),
            };
            told.is_none_or(|told| told == *existed)
                && row.as_ref().is_none_or(is_row)
                && (!matches!(act, Act::Take { .. }) || row.as_ref().is_some_and(is_value))
        }
        _ => false,
    }
}

/// The cell, now that its row's times were told.
pub(super) fn told(cell: Cell, info: &RecordInfo) -> Cell {
    match cell {
        Cell::Written(row) => Cell::Written(Row {
            created_ms: Span::at(info.created_at_ms),
            updated_ms: Span::at(info.updated_at_ms),
            expires_ms: info.expires_at_ms.map(Span::at),
            idle_deadline_ms: info.idle_deadline_ms.map(Span::at),
            ..row
        }),
        cell => cell,
    }
}
