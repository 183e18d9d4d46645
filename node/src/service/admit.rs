//! What a call must pass before it is carried out: who calls, until when, and whether there is room for it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use helve_http::Address;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tonic::metadata::MetadataMap;

use super::{caller::Caller, failure::Failure};
use crate::{
    limits,
    shares::{Share, Shares},
};

/// A call that may be carried out. Its room is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// Who calls.
    pub(crate) caller: Arc<Caller>,
    /// When the answer must be on its way.
    pub(crate) deadline: Instant,
    _room: Taken,
}

/// Room for a stream. Given back when this is dropped.
#[derive(Debug)]
pub(crate) struct StreamRoom {
    /// Who calls.
    pub(crate) caller: Arc<Caller>,
    _room: Taken,
}

/// Room for a health watch. Given back when this is dropped.
#[derive(Debug)]
pub(crate) struct WatchRoom {
    _room: StreamRoom,
    _share: Option<Share<Address>>,
}

/// Room that is taken until this is dropped.
type Taken = Vec<OwnedSemaphorePermit>;

/// Bounds what is under way on this node, as a whole and for each tenant that has tokens.
#[derive(Debug)]
pub(crate) struct Gate {
    all: Room,
    watches: Arc<Semaphore>,
    /// By the addresses that watch.
    watchers: Shares<Address>,
    /// By the names in tokens, so there are as many as tenants at most.
    tenants: Mutex<BTreeMap<String, Arc<Room>>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            all: Room::new(
                limits::CALLS_IN_FLIGHT_MAX,
                limits::CALL_BYTES_IN_FLIGHT_MAX,
                limits::LISTS_IN_FLIGHT_MAX,
            ),
            watches: permits(limits::HEALTH_WATCHES_MAX),
            watchers: Shares::new(limits::ADDRESS_HEALTH_WATCHES_MAX),
            tenants: Mutex::default(),
        }
    }
}

impl Gate {
    /// Admits a call of this many bytes, or refuses it as overloaded. It never waits: a queue in front of a busy node only adds
    /// calls that nobody waits for any more.
    pub(crate) fn admit(
        &self,
        caller: Arc<Caller>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Admitted, Failure> {
        let bytes = u32::try_from(bytes).map_err(|_| Failure::Overloaded)?;
        let mut taken = Vec::with_capacity(4);
        for room in self
            .tenant(&caller)
            .as_deref()
            .into_iter()
            .chain([&self.all])
        {
            taken.push(take(&room.calls, 1)?);
            taken.push(take(&room.bytes, bytes)?);
        }
        Ok(Admitted {
            caller,
            deadline,
            _room: taken,
        })
    }

    /// Admits a list.
    pub(crate) fn admit_list(&self, caller: Arc<Caller>) -> Result<StreamRoom, Failure> {
        let tenant = self.tenant(&caller);
        let rooms = tenant.as_deref().into_iter().chain([&self.all]);
        let taken: Result<Taken, _> = rooms.map(|room| take(&room.lists, 1)).collect();
        Ok(StreamRoom {
            caller,
            _room: taken?,
        })
    }

    /// Admits a health watch of a caller at this address. One without an address, which only a test makes, counts towards no share.
    pub(crate) fn admit_watch(
        &self,
        caller: Arc<Caller>,
        from: Option<IpAddr>,
    ) -> Result<WatchRoom, Failure> {
        let share = from.map(|from| self.watchers.take(from.into()).ok_or(Failure::Overloaded));
        Ok(WatchRoom {
            _share: share.transpose()?,
            _room: StreamRoom {
                caller,
                _room: vec![take(&self.watches, 1)?],
            },
        })
    }

    /// What the caller's tenant may take up; `None` where tokens are not asked for, and there is one tenant.
    fn tenant(&self, caller: &Caller) -> Option<Arc<Room>> {
        if !caller.holds_token() {
            return None;
        }
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = tenants.get(&caller.tenant) {
            return Some(Arc::clone(room));
        }
        let room = Arc::new(Room::new(
            limits::TENANT_CALLS_IN_FLIGHT_MAX,
            limits::TENANT_CALL_BYTES_IN_FLIGHT_MAX,
            limits::TENANT_LISTS_IN_FLIGHT_MAX,
        ));
        tenants.insert(caller.tenant.clone(), Arc::clone(&room));
        Some(room)
    }
}

/// Room for calls and lists.
#[derive(Debug)]
struct Room {
    calls: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    lists: Arc<Semaphore>,
}

impl Room {
    fn new(calls: usize, bytes: usize, lists: usize) -> Self {
        Self {
            calls: permits(calls),
            bytes: permits(bytes),
            lists: permits(lists),
        }
    }
}

fn permits(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count))
}

fn take(room: &Arc<Semaphore>, permits: u32) -> Result<OwnedSemaphorePermit, Failure> {
    Arc::clone(room)
        .try_acquire_many_owned(permits)
        .map_err(|_| Failure::Overloaded)
}

/// When a call that came just now must be answered, by its `grpc-timeout`.
pub(crate) fn deadline(metadata: &MetadataMap, now: Instant) -> Result<Instant, Failure> {
    let Some(text) = metadata.get("grpc-timeout") else {
        return Ok(within(limits::DEADLINE_DEFAULT, now));
    };
    let timeout = text.to_str().ok().and_then(parse_timeout);
    let timeout = timeout.ok_or_else(|| {
        Failure::Malformed(
            "`grpc-timeout` is at most 8 digits and one of the units H, M, S, m, u, n".into(),
        )
    })?;
    Ok(within(timeout, now))
}

/// When a call that Exchange carried must be answered; 0 is the default.
pub(crate) fn deadline_after(timeout_ms: u32, now: Instant) -> Instant {
    match timeout_ms {
        0 => within(limits::DEADLINE_DEFAULT, now),
        ms => within(Duration::from_millis(ms.into()), now),
    }
}

fn within(timeout: Duration, now: Instant) -> Instant {
    let timeout = timeout.min(limits::DEADLINE_MAX);
    now + timeout.saturating_sub((timeout / 20).min(limits::DEADLINE_MARGIN_MAX))
}

/// The value of a `grpc-timeout` header.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3_600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::TokenGrant;
    use proptest::prelude::*;

    use super::*;
    use crate::{config::TokenHash, properties::check, service::credential::Credential};

    #[test]
    fn a_timeout_that_a_client_makes_up_is_refused_or_bounded() {
        let text = prop_oneof!["[0-9]{0,9}[HMSmun]?", "\\PC{0,12}"];
        let now = Instant::now();
        check(&text, |text| {
            if let Some(timeout) = parse_timeout(&text) {
                prop_assert!(within(timeout, now) <= now + limits::DEADLINE_MAX);
                prop_assert!(text.len() <= 9, "{}", text);
            }
            Ok(())
        });
    }

    #[test]
    fn a_grpc_timeout_is_digits_and_a_unit() {
        let table = [
            ("2H", Some(7_200_000_000_000)),
            ("3M", Some(180_000_000_000)),
            ("5S", Some(5_000_000_000)),
            ("250m", Some(250_000_000)),
            ("7u", Some(7_000)),
            ("99999999n", Some(99_999_999)),
            ("", None),
            ("S", None),
            ("5", None),
            ("5s", None),
            ("-5S", None),
            ("+5S", None),
            ("123456789S", None),
            ("5\u{e9}", None),
        ];
        for (text, nanos) in table {
            assert_eq!(
                parse_timeout(text),
                nanos.map(Duration::from_nanos),
                "{text}"
            );
        }
    }

    #[test]
    fn a_deadline_has_a_default_a_cap_and_a_margin() {
        let now = Instant::now();
        let of = |timeout: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", timeout.parse().unwrap());
            deadline(&metadata, now).unwrap() - now
        };
        let margin = limits::DEADLINE_MARGIN_MAX;
        let default = deadline(&MetadataMap::new(), now).unwrap();
        assert_eq!(default - now, limits::DEADLINE_DEFAULT - margin);
        assert_eq!(default, deadline_after(0, now));
        assert_eq!(of("9H"), limits::DEADLINE_MAX - margin);
        assert_eq!(of("100m"), Duration::from_millis(95));
        assert_eq!(deadline_after(100, now) - now, Duration::from_millis(95));
    }

    #[test]
    fn a_malformed_timeout_is_refused_not_ignored() {
        let mut metadata = MetadataMap::new();
        metadata.insert("grpc-timeout", "soon".parse().unwrap());
        assert!(matches!(
            deadline(&metadata, Instant::now()),
            Err(Failure::Malformed(_))
        ));
    }

    #[test]
    fn room_is_bounded_and_given_back() {
        let gate = Gate::default();
        let now = Instant::now();
        let admit = |bytes| gate.admit(Caller::anyone(), bytes, now);
        let all: Vec<_> = (0..limits::CALLS_IN_FLIGHT_MAX).map(|_| admit(1)).collect();
        assert!(all.iter().all(Result::is_ok));
        assert!(matches!(admit(1), Err(Failure::Overloaded)));
        drop(all);
        let large = admit(limits::CALL_BYTES_IN_FLIGHT_MAX);
        assert!(large.is_ok());
        assert!(matches!(admit(1), Err(Failure::Overloaded)));
        drop(large);
        assert!(admit(1).is_ok());
    }

    #[test]
    fn health_watches_are_bounded_and_take_no_calls_room() {
        let gate = Gate::default();
        let watch = |from: u8| {
            let from = IpAddr::from([10, 0, 0, from]);
            gate.admit_watch(Caller::nobody(), Some(from))
        };
        let share = limits::ADDRESS_HEALTH_WATCHES_MAX;
        let of_one: Vec<_> = (0..share).map(|_| watch(1)).collect();
        assert!(of_one.iter().all(Result::is_ok));
        assert!(matches!(watch(1), Err(Failure::Overloaded)));
        let rest = limits::HEALTH_WATCHES_MAX - share;
        let addresses = (0..rest).map(|n| u8::try_from(2 + n / share).unwrap());
        let of_others: Vec<_> = addresses.map(watch).collect();
        assert!(of_others.iter().all(Result::is_ok));
        assert!(matches!(watch(250), Err(Failure::Overloaded)));
        assert!(gate.admit(Caller::anyone(), 1, Instant::now()).is_ok());
        drop(of_others);
        assert!(watch(250).is_ok());
        assert!(watch(1).is_err(), "its own share is still taken");
        drop(of_one);
        assert!(watch(1).is_ok());
    }

    #[test]
    fn no_tenant_takes_the_room_of_another() {
        let gate = Gate::default();
        let now = Instant::now();
        let holder = |tenant: &str| {
            let grant = TokenGrant {
                tenant: tenant.to_owned(),
                ..TokenGrant::default()
            };
            Caller::of_token(Credential::Token(TokenHash::of(tenant)), grant)
        };
        let admit = |tenant| gate.admit(holder(tenant), 1, now);
        let all: Vec<_> = (0..limits::TENANT_CALLS_IN_FLIGHT_MAX)
            .map(|_| admit("greedy").unwrap())
            .collect();
        assert!(matches!(admit("greedy"), Err(Failure::Overloaded)));
        assert!(admit("modest").is_ok());
        let lists = (0..limits::TENANT_LISTS_IN_FLIGHT_MAX)
            .map(|_| gate.admit_list(holder("greedy")).unwrap());
        let lists: Vec<_> = lists.collect();
        assert!(gate.admit_list(holder("greedy")).is_err());
        assert!(gate.admit_list(holder("modest")).is_ok());
        drop((all, lists));
        assert!(admit("greedy").is_ok() && gate.admit_list(holder("greedy")).is_ok());
    }
}
