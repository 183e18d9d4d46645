//! How many calls of the console are under way: fewer than the HTTP port has connections, so that probes and scrapes find theirs.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use helve_http::Address;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    bounds::Shared,
    keyed_places::{KeyedPlace, KeyedPlaces},
    limits::{
        ADDRESS_CONSOLE_CALLS_MAX, ADDRESS_CONSOLE_LOOKUPS_MAX, CONSOLE_CALLS_MAX,
        CONSOLE_LOOKUPS_MAX,
    },
    service::failure::Failure,
};

/// The places of calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::service) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    calls: AddressPlaces,
    lookups: AddressPlaces,
    refused: AtomicU64,
}

/// Places that addresses share.
#[derive(Debug)]
struct AddressPlaces {
    max: usize,
    all: Arc<Semaphore>,
    addresses: KeyedPlaces<Address>,
}

/// One place. Given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_address: KeyedPlace<Address>,
}

impl AddressPlaces {
    /// `max` places, of which one address may have `address_max`.
    fn new(max: usize, address_max: usize) -> Self {
        Self {
            max,
            all: Arc::new(Semaphore::new(max)),
            addresses: KeyedPlaces::new(address_max),
        }
    }

    fn take(&self, from: SocketAddr) -> Option<Place> {
        Some(Place {
            _of_address: self.addresses.take(from.ip().into())?,
            _of_all: Arc::clone(&self.all).try_acquire_owned().ok()?,
        })
    }
}

impl Default for Places {
    fn default() -> Self {
        Self::new(
            AddressPlaces::new(CONSOLE_CALLS_MAX, ADDRESS_CONSOLE_CALLS_MAX),
            AddressPlaces::new(CONSOLE_LOOKUPS_MAX, ADDRESS_CONSOLE_LOOKUPS_MAX),
        )
    }
}

impl Places {
    fn new(calls: AddressPlaces, lookups: AddressPlaces) -> Self {
        Self(Arc::new(Inner {
            calls,
            lookups,
            refused: AtomicU64::new(0),
        }))
    }

    /// Places for as many calls as by default, of which this many may have their credential looked up.
    #[cfg(test)]
    pub(super) fn with_lookups(max: usize) -> Self {
        let calls = AddressPlaces::new(CONSOLE_CALLS_MAX, ADDRESS_CONSOLE_CALLS_MAX);
        Self::new(calls, AddressPlaces::new(max, max))
    }

    /// A place for a call from this address.
    ///
    /// # Errors
    /// If all are taken, or all that one address may have.
    pub(super) fn take(&self, from: SocketAddr) -> Result<Place, Failure> {
        self.counted(self.0.calls.take(from))
    }

    /// A place, beside its own, for a call from this address while its credential is looked up.
    ///
    /// # Errors
    /// If all are taken, or all that one address may have.
    pub(super) fn take_lookup(&self, from: SocketAddr) -> Result<Place, Failure> {
        self.counted(self.0.lookups.take(from))
    }

    fn counted(&self, taken: Option<Place>) -> Result<Place, Failure> {
        taken.ok_or_else(|| {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            Failure::Overloaded
        })
    }

    /// How many calls are under way, may be, and were refused, for want of either place.
    pub(in crate::service) fn fullness(&self) -> Shared {
        let calls = &self.0.calls;
        Shared {
            used: calls.max - calls.all.available_permits(),
            limit: calls.max,
            refused: self.0.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_places_to_others_and_gives_its_own_back() {
        let places = Places::new(AddressPlaces::new(4, 2), AddressPlaces::new(1, 1));
        let [one, other] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 9)));
        let held = [places.take(one), places.take(one)].map(Result::unwrap);
        assert!(places.take(one).is_err());
        assert!(places.take(other).is_ok());
        assert_eq!((places.fullness().used, places.fullness().refused), (2, 1));
        drop(held);
        assert!(places.take(one).is_ok());
        assert_eq!(places.fullness().used, 0);
    }

    #[test]
    fn lookups_leave_places_to_known_callers() {
        let places = Places::new(AddressPlaces::new(8, 8), AddressPlaces::new(2, 1));
        let [one, two, three] = [1, 2, 3].map(|host| SocketAddr::from(([10, 0, 0, host], 9)));
        let first = places.take_lookup(one).unwrap();
        assert!(places.take_lookup(one).is_err(), "one address has all");
        let second = places.take_lookup(two).unwrap();
        assert!(places.take_lookup(three).is_err());
        assert!(places.take(three).is_ok());
        assert_eq!((places.fullness().used, places.fullness().refused), (0, 2));
        drop((first, second));
        assert!(places.take_lookup(three).is_ok());
    }
}
