//! How many calls of the console are under way: fewer than the HTTP port has connections, so that probes and scrapes find theirs.
//!
//! With tokens, a call takes its place by who makes it and not by where it comes from: through a
//! tunnel, all callers come from one address. Operators have places of their own, no tenant has all
//! the others, and no principal all of its tenant's.

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
    bounds::{self, Shared},
    keyed_places::{KeyedPlace, KeyedPlaces, SharedPlace, SharedPlaces},
    limits::{
        ADDRESS_CONSOLE_CALLS_MAX, ADDRESS_CONSOLE_LOOKUPS_MAX, CONSOLE_CALLS_MAX,
        CONSOLE_LOOKUPS_MAX, OPERATORS_CONSOLE_CALLS_MAX, PRINCIPAL_CONSOLE_CALLS_MAX,
    },
    service::{
        caller::{Caller, Power},
        failure::Failure,
    },
};

/// The places of calls. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::service) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Of callers without a credential. A node has these or tenants, by its `--auth`.
    addresses: AddressPlaces,
    /// Of tenants, as many as addresses have.
    tenants: SharedPlaces,
    /// Of principals, by tenant and name.
    principals: KeyedPlaces<(String, String)>,
    operators: Arc<Semaphore>,
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
pub(super) enum Place {
    /// Of those that operators share.
    Operator { _of_operators: OwnedSemaphorePermit },
    /// Of those that tenants share.
    Tenant {
        _of_principal: KeyedPlace<(String, String)>,
        _of_tenant: SharedPlace,
    },
    /// Of those that addresses share.
    Address {
        _of_all: OwnedSemaphorePermit,
        _of_address: KeyedPlace<Address>,
    },
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
        Some(Place::Address {
            _of_address: self.addresses.take(from.ip().into())?,
            _of_all: Arc::clone(&self.all).try_acquire_owned().ok()?,
        })
    }
}

impl Default for Places {
    fn default() -> Self {
        Self::new(
            AddressPlaces::new(CONSOLE_CALLS_MAX, ADDRESS_CONSOLE_CALLS_MAX),
            OPERATORS_CONSOLE_CALLS_MAX,
            AddressPlaces::new(CONSOLE_LOOKUPS_MAX, ADDRESS_CONSOLE_LOOKUPS_MAX),
        )
    }
}

impl Places {
    /// Places of calls, which addresses share or else tenants. Beside them, this many of operators,
    /// and those of look-ups.
    fn new(calls: AddressPlaces, operators_max: usize, lookups: AddressPlaces) -> Self {
        Self(Arc::new(Inner {
            tenants: SharedPlaces::new(calls.max),
            principals: KeyedPlaces::new(PRINCIPAL_CONSOLE_CALLS_MAX),
            addresses: calls,
            operators: Arc::new(Semaphore::new(operators_max)),
            lookups,
            refused: AtomicU64::new(0),
        }))
    }

    /// Places for as many calls as by default, of which this many may have their credential looked up.
    #[cfg(test)]
    pub(super) fn with_lookups(max: usize) -> Self {
        let calls = AddressPlaces::new(CONSOLE_CALLS_MAX, ADDRESS_CONSOLE_CALLS_MAX);
        let lookups = AddressPlaces::new(max, max);
        Self::new(calls, OPERATORS_CONSOLE_CALLS_MAX, lookups)
    }

    /// A place for a call of this caller, which comes from this address.
    ///
    /// # Errors
    /// If all are taken that such callers have, or all that its principal or its tenant may have; of
    /// a caller without a credential, all that its address may have.
    pub(super) fn take(&self, caller: &Caller, from: SocketAddr) -> Result<Place, Failure> {
        let place = match &caller.power {
            Power::Token { .. } if caller.is_operator() => {
                let permit = Arc::clone(&self.0.operators).try_acquire_owned().ok();
                permit.map(|permit| Place::Operator {
                    _of_operators: permit,
                })
            }
            Power::Token { .. } => self.take_of_tenant(caller),
            Power::All | Power::Nothing => self.0.addresses.take(from),
        };
        self.counted(place)
    }

    fn take_of_tenant(&self, caller: &Caller) -> Option<Place> {
        let principal = (caller.tenant.clone(), caller.principal.clone());
        Some(Place::Tenant {
            _of_principal: self.0.principals.take(principal)?,
            _of_tenant: self.0.tenants.take(&caller.tenant, 1)?,
        })
    }

    /// A place for a call from this address while its credential is looked up. It has no other
    /// until that has told who makes it.
    ///
    /// # Errors
    /// If all are taken, or all that one address may have.
    pub(super) fn take_lookup(&self, from: SocketAddr) -> Result<Place, Failure> {
        self.counted(self.0.lookups.take(from))
    }

    fn counted(&self, taken: Option<Place>) -> Result<Place, Failure> {
        taken.ok_or_else(|| {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            Failure::Overloaded(bounds::CONSOLE_CALLS)
        })
    }

    /// How many calls are under way, may be, and were refused. Those of operators and those whose
    /// credential is looked up have places beside these: of both, only what was refused counts.
    pub(in crate::service) fn fullness(&self) -> Shared {
        let addresses = &self.0.addresses;
        let of_addresses = addresses.max - addresses.all.available_permits();
        Shared {
            used: of_addresses + self.0.tenants.used(),
            limit: addresses.max,
            refused: self.0.refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use helve_proto::v1::{TokenGrant, TokenRole};

    use super::*;
    use crate::{config::TokenHash, service::credential::Credential};

    /// Who holds this principal's token of this role in this tenant.
    fn holder(tenant: &str, principal: &str, role: TokenRole) -> Arc<Caller> {
        let grant = TokenGrant {
            tenant: tenant.to_owned(),
            principal: principal.to_owned(),
            role: role.into(),
            ..TokenGrant::default()
        };
        Caller::of_token(Credential::Token(TokenHash::of("hlv_")), grant)
    }

    #[test]
    fn one_address_leaves_places_to_others_and_gives_its_own_back() {
        let places = Places::new(AddressPlaces::new(4, 2), 1, AddressPlaces::new(1, 1));
        let [one, other] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 9)));
        let anyone = Caller::anyone();
        let take = |from| places.take(&anyone, from);
        let held = [take(one), take(one)].map(Result::unwrap);
        assert!(take(one).is_err());
        assert!(take(other).is_ok());
        assert_eq!((places.fullness().used, places.fullness().refused), (2, 1));
        drop(held);
        assert!(take(one).is_ok());
        assert_eq!(places.fullness().used, 0);
    }

    #[test]
    fn tenant_leaves_places_to_other_tenants_and_to_operators_at_its_address() {
        let places = Places::new(AddressPlaces::new(8, 8), 2, AddressPlaces::new(1, 1));
        let from = SocketAddr::from(([127, 0, 0, 1], 9));
        let fill = |caller: &Caller| -> Vec<Place> {
            iter::from_fn(|| places.take(caller, from).ok()).collect()
        };
        let greedy = fill(&holder("acme", "shop", TokenRole::Reader));
        assert_eq!(greedy.len(), 6, "three times what it leaves free");
        let admin = holder("acme", "admin", TokenRole::Admin);
        assert!(places.take(&admin, from).is_err(), "it is of that tenant");
        let other = fill(&holder("other", "shop", TokenRole::Reader));
        assert_eq!(other.len(), 2, "what the first one leaves free");
        let operator = holder("", "root", TokenRole::Operator);
        let operators = fill(&operator);
        assert_eq!(operators.len(), 2, "operators have places of their own");
        assert_eq!((places.fullness().used, places.fullness().refused), (8, 4));
        drop((greedy, other, operators));
        assert!(places.take(&admin, from).is_ok());
        assert!(places.take(&operator, from).is_ok());
        assert_eq!(places.fullness().used, 0);
    }

    #[test]
    fn principal_leaves_places_to_others_of_its_tenant() {
        let places = Places::default();
        let from = SocketAddr::from(([127, 0, 0, 1], 9));
        let greedy = holder("acme", "shop", TokenRole::Reader);
        let held: Vec<_> = iter::from_fn(|| places.take(&greedy, from).ok()).collect();
        assert_eq!(held.len(), PRINCIPAL_CONSOLE_CALLS_MAX);
        for (tenant, principal) in [("acme", "admin"), ("other", "shop")] {
            let other = holder(tenant, principal, TokenRole::Reader);
            assert!(places.take(&other, from).is_ok(), "{tenant} {principal}");
        }
        drop(held);
        assert!(places.take(&greedy, from).is_ok());
    }

    #[test]
    fn lookups_leave_places_to_known_callers() {
        let places = Places::new(AddressPlaces::new(8, 8), 1, AddressPlaces::new(2, 1));
        let [one, two, three] = [1, 2, 3].map(|host| SocketAddr::from(([10, 0, 0, host], 9)));
        let first = places.take_lookup(one).unwrap();
        assert!(places.take_lookup(one).is_err(), "one address has all");
        let second = places.take_lookup(two).unwrap();
        assert!(places.take_lookup(three).is_err());
        assert!(places.take(&Caller::anyone(), three).is_ok());
        assert_eq!((places.fullness().used, places.fullness().refused), (0, 2));
        drop((first, second));
        assert!(places.take_lookup(three).is_ok());
    }
}
