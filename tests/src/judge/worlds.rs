//! One of the ways in which some records' history may have been, and what agrees with it.

use std::collections::HashMap;

use helve_client::v1::RecordInfo;

use super::told::Heard;
use crate::model::{Act, Cell, Name, Row, Said, Span};

/// The revision of a write that was not seen.
pub(super) const UNSEEN: u64 = 1 << 62;

/// One way in which it may have been.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// What is stored under each name.
    pub(super) standing: Vec<Standing>,
    /// The deeds of unknown outcome that took effect, by their numbers, in order.
    pub(super) used: Vec<usize>,
    /// Of the conflicts that may stand here, those that it has explained, in order.
    pub(super) explained: Vec<usize>,
}

/// What is stored under a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Standing {
    pub(super) cell: Cell,
    /// Of a write that was not seen: those revisions that a call named, and that it may have.
    pub(super) perhaps: Vec<u64>,
}

impl World {
    /// The world in which nothing was ever done to this many records.
    pub(super) fn new(records: usize) -> Self {
        Self {
            standing: vec![Standing::default(); records],
            used: Vec::new(),
            explained: Vec::new(),
        }
    }

    pub(super) fn has_used(&self, deed: usize) -> bool {
        self.used.binary_search(&deed).is_ok()
    }

    pub(super) fn uses(&mut self, deed: usize) {
        if let Err(place) = self.used.binary_search(&deed) {
            self.used.insert(place, deed);
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
        let mut world = self.clone();
        world.explained.remove(place);
        Some(world)
    }

    /// Whatever may become of the other may become of this one, which holds the same: it still has all deeds before it that the other
    /// has, and explained what that did.
    fn stands_for(&self, other: &Self) -> bool {
        is_within(&self.used, &other.used) && is_within(&other.explained, &self.explained)
    }

    /// The same, but for what is stored in one place.
    pub(super) fn with(&self, place: usize, cell: Cell) -> Self {
        let mut world = self.clone();
        let standing = &mut world.standing[place];
        if !is_unseen(&cell) {
            standing.perhaps.clear();
        }
        standing.cell = cell;
        world
    }
}

/// Whether what was written there was never seen.
pub(super) fn is_unseen(cell: &Cell) -> bool {
    cell.row().is_some_and(|row| row.revision == UNSEEN)
}

/// Worlds, but of those that hold the same only one.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    places: HashMap<Vec<Standing>, Vec<usize>>,
    worlds: Vec<Option<World>>,
    len: usize,
}

impl Distinct {
    /// Whether the world is new.
    pub(super) fn insert(&mut self, world: World) -> bool {
        let alike = match self.places.get_mut(&world.standing) {
            Some(alike) => alike,
            None => self.places.entry(world.standing.clone()).or_default(),
        };
        let known = alike
            .iter()
            .filter_map(|place| self.worlds[*place].as_ref());
        if known.into_iter().any(|known| known.stands_for(&world)) {
            return false;
        }
        alike.retain(|place| {
            let is_left = self.worlds[*place]
                .as_ref()
                .is_some_and(|known| !world.stands_for(known));
            if !is_left {
                self.worlds[*place] = None;
                self.len -= 1;
            }
            is_left
        });
        alike.push(self.worlds.len());
        self.worlds.push(Some(world));
        self.len += 1;
        true
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The world that came as this one, counted from 0, if no other represents it; `None` after the
    /// last.
    pub(super) fn get(&self, number: usize) -> Option<Option<&World>> {
        self.worlds.get(number).map(Option::as_ref)
    }

    pub(super) fn into_worlds(self) -> Vec<World> {
        self.worlds.into_iter().flatten().collect()
    }
}

/// This many of these worlds: of each that holds something else the one that gets there with the
/// fewest deeds, then the next ones.
pub(super) fn fewest(worlds: Vec<World>, most: usize) -> Vec<World> {
    let mut by_standing: HashMap<Vec<Standing>, Vec<World>> = HashMap::new();
    for world in worlds {
        let alike = by_standing.entry(world.standing.clone()).or_default();
        alike.push(world);
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
    ranked.into_iter().map(|(_, world)| world).collect()
}

/// Whether all of the one are in the other; both are in order.
fn is_within(one: &[usize], other: &[usize]) -> bool {
    let mut others = other.iter();
    one.iter().all(|deed| others.any(|other| other == deed))
}

/// One of each.
pub(super) fn distinct(worlds: Vec<World>) -> Vec<World> {
    if worlds.len() < 2 {
        return worlds;
    }
    let mut distinct = Distinct::default();
    for world in worlds {
        distinct.insert(world);
    }
    distinct.into_worlds()
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
