//! Room in the queue of lines that are not durable yet. A tenant may hold three times what is left free for all others:
//! one that floods the queue leaves a quarter of it, and never keeps another tenant's calls from being recorded. A part of it is kept
//! for operators.

use super::event::OPERATORS;
use crate::{
    keyed_places::{SharedPlace, SharedPlaces},
    limits::AUDIT_OPERATORS_PART,
};

/// Room for bytes of lines.
#[derive(Debug)]
pub(super) struct Room {
    bytes: SharedPlaces,
    for_operators: usize,
}

impl Room {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: SharedPlaces::new(bytes_max),
            for_operators: bytes_max / AUDIT_OPERATORS_PART,
        }
    }

    /// Room for a line of a tenant; `None` if its share or the whole is used up.
    pub(super) fn take(&self, tenant: &str, bytes: usize) -> Option<SharedPlace> {
        let kept = match tenant {
            OPERATORS => 0,
            _ => self.for_operators,
        };
        self.bytes.take_within(tenant, bytes, kept)
    }

    /// Bytes that are taken.
    pub(super) fn taken(&self) -> usize {
        self.bytes.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_that_flood_leave_room_for_each_other_and_for_the_next() {
        let room = Room::new(100_000);
        let mut held = Vec::new();
        for tenant in ["mallory", "mathilda", "max"] {
            while let Some(place) = room.take(tenant, 10) {
                held.push(place);
            }
        }
        let honest: Vec<_> = (0..2).map_while(|_| room.take("ann", 10)).collect();
        assert_eq!(honest.len(), 2, "of {} bytes", 100_000 - room.taken());
        // However many they are.
        for tenant in 0..100 {
            while let Some(place) = room.take(&tenant.to_string(), 10) {
                held.push(place);
            }
        }
        let operators = (0..400).map_while(|_| room.take(OPERATORS, 10));
        let operators: Vec<_> = operators.collect();
        assert_eq!(operators.len(), 400);
        drop((held, honest, operators));
        assert_eq!(room.taken(), 0);
    }
}
