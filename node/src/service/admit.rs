//! What a call must pass before it is carried out: who calls, until when, and whether there is room for it.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use helve_http::Address;
use helve_proto::TraceParent;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tonic::{Request, metadata::MetadataMap};

use super::{
    account::Account,
    audited::{self, Peer},
    budget::Charge,
    caller::Caller,
    failure::Failure,
};
use crate::{
    bounds::{self, Shared, What},
    keyed_places::{KeyedPlace, KeyedPlaces},
    limits,
};

/// Where a call comes from, and who is charged for it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Who calls.
    pub(crate) caller: Arc<Caller>,
    /// From where.
    pub(crate) peer: Peer,
    /// Who is charged.
    pub(crate) account: Arc<Account>,
    /// What the message takes that the call came in, alone or with others.
    pub(crate) request: Option<Arc<Charge>>,
    /// In which span it is made, if the caller says so and spans are recorded.
    pub(crate) parent: Option<TraceParent>,
}

impl Origin {
    /// The origin of a request, whose message is charged to it from now on.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Failure> {
        let account = Account::of(request)?;
        Ok(Self {
            caller: Caller::of(request)?,
            peer: audited::peer(request),
            request: account.take_request().map(Arc::new),
            account,
            parent: None,
        })
    }

    /// Admits a call, or refuses it as overloaded. It never waits: a queue in front of a busy node only adds calls that no caller
    /// waits for any more.
    pub(crate) fn admit(self, deadline: Instant) -> Result<Admitted, Failure> {
        Ok(Admitted {
            _call: self.account.take(What::Calls, 1)?,
            _request: self.request,
            answer: Mutex::default(),
            caller: self.caller,
            account: self.account,
            deadline,
        })
    }

    /// Admits a watch.
    pub(crate) fn admit_watch(self) -> Result<WatchPlace, Failure> {
        Ok(WatchPlace {
            _watch: self.account.take(What::Watches, 1)?,
            caller: self.caller,
            account: self.account,
        })
    }

    /// Admits a list.
    pub(crate) fn admit_list(self) -> Result<ListRoom, Failure> {
        Ok(ListRoom {
            _list: self.account.take(What::Lists, 1)?,
            _request: self.request,
            caller: self.caller,
            account: self.account,
        })
    }
}

/// A call that may be carried out. Its room is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// Who calls.
    pub(crate) caller: Arc<Caller>,
    /// When the answer must be on its way.
    pub(crate) deadline: Instant,
    /// Who is charged.
    pub(crate) account: Arc<Account>,
    answer: Mutex<Option<Charge>>,
    _call: Charge,
    _request: Option<Arc<Charge>>,
}

impl Admitted {
    /// Keeps what the answer takes, until [`Admitted::into_answer`].
    pub(crate) fn keep_answer(&self, charge: Option<Charge>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = charge;
    }

    /// Ends the call; what its answer takes is the caller's to hold until the answer has left.
    pub(crate) fn into_answer(self) -> Option<Charge> {
        self.answer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for a list. Given back when this is dropped.
#[derive(Debug)]
pub(crate) struct ListRoom {
    /// Who calls.
    pub(crate) caller: Arc<Caller>,
    /// Who is charged.
    pub(crate) account: Arc<Account>,
    _list: Charge,
    _request: Option<Arc<Charge>>,
}

/// The place of a watch. Given back when this is dropped.
#[derive(Debug)]
pub(crate) struct WatchPlace {
    /// Who calls.
    pub(crate) caller: Arc<Caller>,
    /// Who is charged.
    pub(crate) account: Arc<Account>,
    _watch: Charge,
}

/// Room for a health watch. Given back when this is dropped.
#[derive(Debug)]
pub(crate) struct WatchRoom {
    _watch: OwnedSemaphorePermit,
    _share: Option<KeyedPlace<Address>>,
}

/// Bounds the health watches on this node.
#[derive(Debug)]
pub(crate) struct Gate {
    watches: Arc<Semaphore>,
    /// By the addresses that watch.
    watchers: KeyedPlaces<Address>,
    refused: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            watches: Arc::new(Semaphore::new(limits::HEALTH_WATCHES_MAX)),
            watchers: KeyedPlaces::new(limits::ADDRESS_HEALTH_WATCHES_MAX),
            refused: AtomicU64::new(0),
        }
    }
}

impl Gate {
    /// Admits a health watch of a caller at this address. One without an address, which only a test makes, counts towards no share.
    pub(crate) fn admit_watch(&self, from: Option<IpAddr>) -> Result<WatchRoom, Failure> {
        let admitted = self.take_watch(from);
        if admitted.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted.ok_or(Failure::Overloaded(bounds::HEALTH_WATCHES))
    }

    fn take_watch(&self, from: Option<IpAddr>) -> Option<WatchRoom> {
        let share = match from {
            Some(from) => Some(self.watchers.take(from.into())?),
            None => None,
        };
        Some(WatchRoom {
            _watch: Arc::clone(&self.watches).try_acquire_owned().ok()?,
            _share: share,
        })
    }

    /// How many watches there are, may be, and were refused.
    pub(crate) fn fullness(&self) -> Shared {
        Shared {
            used: limits::HEALTH_WATCHES_MAX - self.watches.available_permits(),
            limit: limits::HEALTH_WATCHES_MAX,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
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
pub(super) fn parse_timeout(text: &str) -> Option<Duration> {
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
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

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
    fn health_watches_are_bounded_and_given_back() {
        let gate = Gate::default();
        let watch = |from: u8| gate.admit_watch(Some(IpAddr::from([10, 0, 0, from])));
        let share = limits::ADDRESS_HEALTH_WATCHES_MAX;
        let of_one: Vec<_> = (0..share).map(|_| watch(1)).collect();
        assert!(of_one.iter().all(Result::is_ok));
        assert!(matches!(
            watch(1),
            Err(Failure::Overloaded("health-watches"))
        ));
        let rest = limits::HEALTH_WATCHES_MAX - share;
        let addresses = (0..rest).map(|n| u8::try_from(2 + n / share).unwrap());
        let of_others: Vec<_> = addresses.map(watch).collect();
        assert!(of_others.iter().all(Result::is_ok));
        assert!(matches!(
            watch(250),
            Err(Failure::Overloaded("health-watches"))
        ));
        let full = gate.fullness();
        assert_eq!((full.used, full.refused), (full.limit, 2));
        drop(of_others);
        assert!(watch(250).is_ok());
        assert!(watch(1).is_err(), "its own share is still taken");
        drop(of_one);
        assert!(watch(1).is_ok());
    }
}
