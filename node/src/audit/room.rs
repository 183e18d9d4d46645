//! Room in the queue of lines that are not durable yet. A tenant may hold three times what is left free for all others:
//! one that floods the queue leaves a quarter of it, and never keeps another tenant's calls from being recorded. A part of it is kept
//! for operators.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::event::OPERATORS;
use crate::limits::{AUDIT_OPERATORS_PART, AUDIT_SHARE};

/// Room for bytes of lines. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    bytes_max: usize,
    bytes: usize,
    tenants: BTreeMap<String, usize>,
}

/// Room that a line has. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Room,
    tenant: String,
    bytes: usize,
}

impl Room {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Held {
            bytes_max,
            bytes: 0,
            tenants: BTreeMap::new(),
        })))
    }

    /// Room for a line of a tenant; `None` if its share or the whole is used up.
    pub(super) fn take(&self, tenant: &str, bytes: usize) -> Option<Place> {
        let mut held = self.held();
        let own = held.tenants.get(tenant).copied().unwrap_or_default();
        let kept = match tenant {
            OPERATORS => 0,
            _ => held.bytes_max / AUDIT_OPERATORS_PART,
        };
        let free = held.bytes_max.saturating_sub(held.bytes + kept);
        let share = usize::try_from(AUDIT_SHARE).unwrap_or(usize::MAX);
        if bytes > free || own.saturating_add(bytes) > free.saturating_mul(share) {
            return None;
        }
        held.bytes += bytes;
        match held.tenants.get_mut(tenant) {
            Some(own) => *own += bytes,
            None => {
                held.tenants.insert(tenant.to_owned(), bytes);
            }
        }
        Some(Place {
            room: self.clone(),
            tenant: tenant.to_owned(),
            bytes,
        })
    }

    /// Bytes that are taken.
    pub(super) fn taken(&self) -> usize {
        self.held().bytes
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Takes other room than before, be there some or not: the call has been carried out.
    pub(super) fn resize(&mut self, bytes: usize) {
        let mut held = self.room.held();
        held.bytes = held.bytes - self.bytes + bytes;
        if let Some(own) = held.tenants.get_mut(&self.tenant) {
            *own = *own - self.bytes + bytes;
        }
        self.bytes = bytes;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.room.held();
        held.bytes -= self.bytes;
        let left = held.tenants.get_mut(&self.tenant).map(|own| {
            *own -= self.bytes;
            *own
        });
        if left == Some(0) {
            held.tenants.remove(&self.tenant);
        }
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
        assert!(room.held().tenants.is_empty());
    }
}
