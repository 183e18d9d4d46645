//! What one principal may take of its tenant's sessions and request ids, and what a tenant may leave behind it. Level 4 shows that
//! each attack is one.

use bytes::Bytes;
use helve_machine::{audit, limits, limits::Bounds, query};
use helve_proto::{
    command::v1::{
        Command, RaiseFeatureLevel, Refusal, Tick, command::Operation, outcome::Outcome as Kind,
    },
    v1::{
        DeleteRequest, MintRequest, OpenSessionRequest, Quotas, SetTenantRequest, StoreRequest,
        TakeRequest,
    },
};

use crate::host::{
    GROUP, Host, START_MS, TENANT, command, request_identity, session_identity, stamp_minted_ids,
};

const MINUTE_MS: u64 = 60_000;

pub(crate) struct Tried(pub(crate) Host);

impl Tried {
    pub(crate) fn new(level: u32, bounds: Bounds) -> Self {
        let mut host = Host {
            bounds,
            ..Host::default()
        };
        let raise = RaiseFeatureLevel { level };
        host.apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
        host.tick(START_MS, limits::TICK_ROWS_MAX);
        Self(host)
    }

    pub(crate) fn apply(&mut self, principal: &str, mut command: Command) -> Result<Kind, Refusal> {
        principal.clone_into(&mut command.principal);
        match self.0.apply(&command).outcome.unwrap() {
            Kind::Refused(refused) => Err(refused.refusal()),
            other => Ok(other),
        }
    }

    /// Opens a session at this time after the start.
    pub(crate) fn open(
        &mut self,
        principal: &str,
        after_ms: u64,
        number: u64,
    ) -> Result<Kind, Refusal> {
        let open = OpenSessionRequest {
            session_id: session(number),
        };
        let open = command(START_MS + after_ms, Operation::OpenSession(open));
        self.apply(principal, open)
    }

    /// A call in a session.
    pub(crate) fn in_session(
        &mut self,
        principal: &str,
        after_ms: u64,
        (number, seq): (u64, u64),
        operation: Operation,
    ) -> Result<Kind, Refusal> {
        let mut call = command(START_MS + after_ms, operation);
        call.identity = Some(session_identity(&session(number), seq, 1));
        stamp_minted_ids(&mut call, number * 1_000_000 + seq);
        self.apply(principal, call)
    }

    /// A call under a request id of another time than now.
    pub(crate) fn at(
        &mut self,
        principal: &str,
        (after_ms, sent_ms): (u64, u64),
        operation: Operation,
    ) -> Result<Kind, Refusal> {
        let mut call = command(START_MS + after_ms, operation);
        call.identity = Some(request_identity(START_MS + sent_ms, self.0.index));
        stamp_minted_ids(&mut call, self.0.index);
        self.apply(principal, call)
    }

    pub(crate) fn quota(&mut self, bytes: u64) {
        let quotas = Quotas {
            bytes,
            ..Quotas::default()
        };
        let set = Operation::SetTenant(SetTenantRequest {
            tenant: TENANT.to_owned(),
            quotas: Some(quotas),
            ..SetTenantRequest::default()
        });
        self.at("operator", (0, 0), set).unwrap();
    }

    /// What the tenant's usage says, and the bytes that its rows take by a count of each.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let used = query::tenant_usage(&self.0.rows, GROUP, TENANT).unwrap();
        let own = [
            &GROUP.to_be_bytes()[..],
            &[u8::try_from(TENANT.len()).unwrap()],
            TENANT.as_bytes(),
        ]
        .concat();
        let rows = self
            .0
            .rows
            .0
            .iter()
            .filter(|(key, _)| key.starts_with(&own));
        let taken = rows.map(|(key, value)| (key.len() + value.len()) as u64);
        (used.bytes, taken.sum())
    }

    pub(crate) fn audited(&self) {
        let audited = audit(&self.0.rows, GROUP).map_err(|fault| fault.to_string());
        assert_eq!(audited, Ok(()));
    }
}

pub(crate) fn session(number: u64) -> Bytes {
    let mut id = [7; limits::IDENTITY_BYTES];
    id[..8].copy_from_slice(&number.to_be_bytes());
    Bytes::copy_from_slice(&id)
}

/// A delete of what is not there.
pub(crate) fn delete(id: &str) -> Operation {
    Operation::Delete(DeleteRequest {
        store: "cart".into(),
        id: id.into(),
        ..DeleteRequest::default()
    })
}

pub(crate) fn store(bytes: usize) -> Operation {
    Operation::Store(StoreRequest {
        key: "k".into(),
        value: vec![7; bytes].into(),
        ..StoreRequest::default()
    })
}

#[test]
fn sessions_of_one_principal_refuse_no_other_one() {
    let bounds = Bounds {
        sessions_max: 1_000,
        principal_sessions_max: 250,
        ..Bounds::REPLICATED
    };
    for (level, expected) in [(4, Err(Refusal::Quota)), (5, Ok(()))] {
        let mut tried = Tried::new(level, bounds);
        tried.open("ann", 0, 1_000_000).unwrap();
        let opened = (0..2_000).filter(|number| tried.open("mallory", 0, *number).is_ok());
        let most = if level == 4 { 999 } else { 250 };
        assert_eq!(opened.count(), most, "level {level}");
        let honest = tried.open("ann", 0, 1_000_001).map(|_| ());
        assert_eq!(honest, expected, "level {level}");
        tried.audited();
    }
}

#[test]
fn a_full_share_ends_the_idlest_session_of_the_same_principal() {
    let bounds = Bounds {
        principal_sessions_max: 3,
        ..Bounds::REPLICATED
    };
    let mut tried = Tried::new(5, bounds);
    tried.open("ann", 0, 100).unwrap();
    for number in 0..3 {
        tried.open("mallory", number, number).unwrap();
    }
    assert_eq!(tried.open("mallory", 3, 3), Err(Refusal::Quota));
    let idle_ms = limits::SESSION_EVICTED_IDLE_MS + limits::SESSION_SLACK_MS;
    tried
        .in_session("mallory", idle_ms, (0, 1), delete("a"))
        .unwrap();
    tried.open("mallory", idle_ms + 1, 3).unwrap();
    tried.audited();
    let mut next = |principal: &str, number| {
        let call = tried.in_session(principal, idle_ms + 2, (number, 2), delete("a"));
        call.map(|_| ())
    };
    assert_eq!(
        next("mallory", 1),
        Err(Refusal::SessionExpired),
        "the idlest"
    );
    for (principal, number) in [("mallory", 0), ("mallory", 2), ("mallory", 3), ("ann", 100)] {
        assert_eq!(next(principal, number), Ok(()), "{principal} {number}");
    }
}

#[test]
fn a_principal_has_a_few_sessions_where_others_left_no_room() {
    let bounds = Bounds {
        sessions_max: 6,
        principal_sessions_max: 3,
        principal_sessions_min: 2,
        ..Bounds::REPLICATED
    };
    let mut tried = Tried::new(5, bounds);
    for number in 0..6 {
        let principal = if number < 3 { "mallory" } else { "mathilda" };
        tried.open(principal, 0, number).unwrap();
    }
    tried.open("ann", 0, 10).unwrap();
    tried.open("ann", 0, 11).unwrap();
    assert_eq!(tried.open("ann", 0, 12), Err(Refusal::Quota));
    tried.audited();
}

#[test]
fn request_ids_ahead_of_the_clock_raise_no_other_floor() {
    let bounds = Bounds {
        requests_max: 100,
        principal_requests_max: 50,
        ..Bounds::REPLICATED
    };
    for (level, expected) in [(4, Err(Refusal::RequestTooOld)), (5, Ok(()))] {
        let mut tried = Tried::new(level, bounds);
        tried.at("ann", (0, 0), delete("a")).unwrap();
        let ahead = |tried: &mut Tried| tried.at("mallory", (0, 58_000), delete("m")).is_ok();
        let kept = (0..200).filter(|_| ahead(&mut tried)).count();
        // At level 4 the floor passes the id itself with the one that is too many.
        assert_eq!(kept, if level == 4 { 101 } else { 50 }, "level {level}");
        let honest = tried.at("ann", (1, 1), delete("a")).map(|_| ());
        assert_eq!(honest, expected, "level {level}");
        tried.audited();
    }
    // Its own ids of now are refused for want of room, and not as too old: its floor does not pass the clock.
    let mut tried = Tried::new(5, bounds);
    for _ in 0..60 {
        let _ = tried.at("mallory", (0, 58_000), delete("m"));
    }
    assert_eq!(
        tried.at("mallory", (1, 1), delete("m")),
        Err(Refusal::Quota)
    );
    tried.at("mallory", (58_001, 58_001), delete("m")).unwrap();
    tried.audited();
}

#[test]
fn retries_after_a_raise_find_outcomes_kept_before_it() {
    let mut tried = Tried::new(4, Bounds::REPLICATED);
    let mut mint = command(
        START_MS,
        Operation::Mint(MintRequest {
            store: "cart".into(),
            ..MintRequest::default()
        }),
    );
    mint.identity = Some(request_identity(START_MS, 1));
    stamp_minted_ids(&mut mint, 1);
    let first = tried.apply("ann", mint.clone()).unwrap();
    tried.open("ann", 0, 1).unwrap();
    tried.in_session("ann", 0, (1, 1), delete("a")).unwrap();
    let raise = RaiseFeatureLevel { level: 5 };
    tried
        .0
        .apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
    stamp_minted_ids(&mut mint, 2);
    assert_eq!(tried.apply("ann", mint).unwrap(), first);
    tried.audited();
    // An old session is listed by the next call that moves its deadline.
    let before = tried.bytes().0;
    tried
        .in_session("ann", 10 * MINUTE_MS, (1, 2), delete("a"))
        .unwrap();
    assert!(tried.bytes().0 >= before + limits::SESSION_BYTES);
    tried.audited();
    tried.0.tick(START_MS + 3 * 60 * MINUTE_MS, 1000);
    tried.audited();
    assert_eq!(tried.0.repairs, 0);
}

/// Calls that add nothing leave outcomes: a tenant of 16 KiB took 14.4 MiB.
#[test]
fn a_tenant_at_its_quota_leaves_no_more_than_a_bounded_window() {
    const QUOTA: u64 = 64 << 10;
    for (level, bytes_max) in [(4, u64::MAX), (5, 2 * QUOTA)] {
        let mut tried = Tried::new(level, Bounds::REPLICATED);
        tried.quota(QUOTA);
        for number in 0..2 {
            tried.open("mallory", 0, number).unwrap();
        }
        for call in 1..4_000 {
            tried
                .in_session("mallory", call, (call % 2, call), delete("m"))
                .unwrap();
            tried.at("mallory", (call, call), delete("m")).unwrap();
        }
        let (used, taken) = tried.bytes();
        if level == 4 {
            assert!(used > 6 * QUOTA, "the attack is none: {used}");
        }
        assert!(
            used <= bytes_max && taken <= bytes_max,
            "level {level}: {used} {taken}"
        );
        tried.audited();
        if level == 5 {
            // What adds something is refused, what was done last is still answered.
            let mut store_it = || tried.in_session("mallory", 4_000, (0, 4_000), store(8_000));
            let is_clearing = |stored: &Result<Kind, Refusal>| *stored == Err(Refusal::Clearing);
            let mut tries = std::iter::repeat_with(&mut store_it).take(20);
            let stored = tries.find(|stored| !is_clearing(stored)).unwrap();
            assert!(stored.is_ok(), "the window makes room: {stored:?}");
            let quota = tried.at("mallory", (4_000, 4_000), store(80_000));
            assert_eq!(quota, Err(Refusal::Quota));
            for call in [3_999, 3_998, 3_990] {
                let again = tried.in_session("mallory", 4_001, (call % 2, call), delete("m"));
                assert!(again.is_ok(), "{call}: {again:?}");
            }
            let old = tried.in_session("mallory", 4_001, (0, 2), delete("m"));
            assert_eq!(old, Err(Refusal::StaleCall));
            tried.audited();
            assert_eq!(tried.0.repairs, 0);
        }
    }
}

/// The oldest id of one time and the lowest number cannot be told from those of the call itself.
#[test]
fn ids_of_one_time_and_numbers_that_fall_pass_no_quota() {
    const QUOTA: u64 = 16 << 10;
    let mut tried = Tried::new(5, Bounds::REPLICATED);
    tried.quota(QUOTA);
    for number in 0..8 {
        tried.open("mallory", 0, number).unwrap();
    }
    let mut done = [0, 0];
    for call in 1..2_000 {
        let falling = (call % 8, 4_000 - call);
        done[0] += u32::from(
            tried
                .in_session("mallory", call, falling, delete("m"))
                .is_ok(),
        );
        done[1] += u32::from(tried.at("mallory", (call, 0), delete("m")).is_ok());
        assert!(tried.bytes().0 < 3 * QUOTA, "{done:?} {:?}", tried.bytes());
    }
    tried.audited();
    assert!(done.iter().all(|done| *done > 50), "{done:?}");
    assert_eq!(tried.0.repairs, 0);
}

#[test]
fn sessions_and_tombstones_count_and_are_freed_again() {
    let mut tried = Tried::new(5, Bounds::REPLICATED);
    tried.quota(64 << 10);
    let before = tried.bytes().0;
    let opened = (0..100)
        .filter(|number| tried.open("mallory", 0, *number).is_ok())
        .count();
    assert!((16..=32).contains(&opened), "{opened} of 64 KiB");
    assert_eq!(
        tried.bytes().0 - before,
        opened as u64 * limits::SESSION_BYTES
    );
    tried.audited();
    let late_ms = 2 * limits::SESSION_IDLE_TTL_MS;
    for (number, step) in (0..200).zip(0..) {
        let Ok(Kind::Mint(minted)) = tried.at("mallory", (late_ms + step, late_ms + step), mint())
        else {
            panic!("a tombstone or an outcome is in the way of mint {number}");
        };
        let take = TakeRequest {
            store: "cart".into(),
            id: minted.info.unwrap().name,
            ..TakeRequest::default()
        };
        let sent = (late_ms + step, late_ms + step);
        tried.at("mallory", sent, Operation::Take(take)).unwrap();
        assert!(tried.bytes().0 <= 66 << 10, "{}", tried.bytes().0);
    }
    tried.audited();
    let day_ms = 25 * 60 * MINUTE_MS;
    let tick = Operation::Tick(Tick { rows_max: 1_000 });
    for _ in 0..3 {
        tried
            .0
            .apply(&command(START_MS + late_ms + day_ms, tick.clone()));
    }
    assert_eq!(tried.bytes().0, 0, "all is freed");
    tried.audited();
    assert_eq!(tried.0.repairs, 0);
}

fn mint() -> Operation {
    Operation::Mint(MintRequest {
        store: "cart".into(),
        value: vec![1; 10].into(),
        ..MintRequest::default()
    })
}
