//! What goes to make room is read for its length within a bound as well, and the rest goes later.

use bytes::Bytes;
use helve_machine::limits::{self, Bounds};
use helve_proto::{
    command::v1::{RaiseFeatureLevel, Refusal, command::Operation, outcome::Outcome as Kind},
    v1::{
        DeleteRequest, OpenSessionRequest, PutRequest, Quotas, SetTenantRequest, StoreRequest,
        TakeRequest,
    },
};

use crate::{
    bounded::{audited, call, host, sweep_all},
    host::{GROUP, Host, START_MS, TENANT, command, session_identity},
};

const MINUTE_MS: u64 = 60_000;
const CALLS: u64 = 30;
/// A few outcomes of what is put and taken here are as many bytes.
const BYTES_MAX: usize = 350;
/// More outcomes than that many bytes can be.
const AT_ONCE: usize = 6;
const SESSION_OUTCOMES: u8 = 25;
const PRINCIPAL_REQUEST_OUTCOMES: u8 = 29;

fn put(id: u64) -> Operation {
    Operation::Put(PutRequest {
        store: "cart".into(),
        id: format!("{id:02}"),
        value: Bytes::from(vec![7; 100]),
        ..PutRequest::default()
    })
}

fn take(id: u64) -> Operation {
    Operation::Take(TakeRequest {
        store: "cart".into(),
        id: format!("{id:02}"),
        ..TakeRequest::default()
    })
}

fn delete(id: &str) -> Operation {
    Operation::Delete(DeleteRequest {
        store: "cart".into(),
        id: id.into(),
        ..DeleteRequest::default()
    })
}

fn quota(bytes: u64) -> Operation {
    Operation::SetTenant(SetTenantRequest {
        tenant: TENANT.to_owned(),
        quotas: Some(Quotas {
            bytes,
            ..Quotas::default()
        }),
        ..SetTenantRequest::default()
    })
}

fn open(number: u8) -> Operation {
    Operation::OpenSession(OpenSessionRequest {
        session_id: session(number),
    })
}

fn session(number: u8) -> Bytes {
    Bytes::copy_from_slice(&[number; limits::IDENTITY_BYTES])
}

fn rows(host: &Host, table: u8) -> usize {
    let tenant = TENANT.as_bytes();
    let length = u8::try_from(tenant.len()).unwrap();
    let prefix = [&GROUP.to_be_bytes()[..], &[length], tenant, &[table]].concat();
    let keys = host.rows.0.keys();
    keys.filter(|key| key.starts_with(&prefix)).count()
}

/// A session from before the level, whose outcomes are not measured, and which a call of the level
/// has listed ten minutes after the start.
fn with_unmeasured_session(bounds: Bounds) -> Host {
    let mut host = host(4);
    host.bounds = bounds;
    host.apply(&command(START_MS, open(7)));
    let numbered = |after_ms, seq, operation| {
        let mut command = command(START_MS + after_ms, operation);
        command.identity = Some(session_identity(&session(7), seq, 1));
        command
    };
    for id in 0..CALLS {
        host.apply(&numbered(0, 2 * id + 1, put(id)));
        host.apply(&numbered(0, 2 * id + 2, take(id)));
    }
    let raise = RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    };
    host.apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
    sweep_all(&mut host, 0);
    host.apply(&numbered(10 * MINUTE_MS, 2 * CALLS + 1, delete("none")));
    assert_eq!(rows(&host, SESSION_OUTCOMES) as u64, 2 * CALLS + 1);
    assert_eq!(audited(&host), Ok(()));
    host
}

/// Carries an operation out again and again until it is not told to wait. Says how often it was,
/// and what came of it at last.
fn patiently(
    host: &mut Host,
    table: u8,
    mut carry_out: impl FnMut(&mut Host) -> Kind,
) -> (u32, Kind) {
    let mut waits = 0;
    loop {
        let before = rows(host, table);
        let outcome = carry_out(host);
        let gone = before.saturating_sub(rows(host, table));
        assert!(gone <= AT_ONCE, "{gone} outcomes for one command");
        assert_eq!(audited(host), Ok(()));
        match outcome {
            Kind::Refused(refused) if refused.refusal() == Refusal::Clearing => {
                waits += 1;
                assert!(gone > 0 && waits < 100, "it does not end");
            }
            other => return (waits, other),
        }
    }
}

#[test]
fn unmeasured_session_at_the_bound_goes_bit_by_bit() {
    let mut host = with_unmeasured_session(Bounds {
        principal_sessions_max: 1,
        sweep_bytes_max: BYTES_MAX,
        ..Bounds::REPLICATED
    });
    let (waits, opened) = patiently(&mut host, SESSION_OUTCOMES, |host| {
        let now_ms = START_MS + 27 * MINUTE_MS;
        host.apply(&command(now_ms, open(8))).outcome.unwrap()
    });
    assert!(matches!(opened, Kind::OpenSession(_)), "{opened:?}");
    assert!((4..60).contains(&waits), "{waits}");
    assert_eq!((rows(&host, SESSION_OUTCOMES), host.repairs), (0, 0));
}

#[test]
fn unmeasured_session_over_the_byte_quota_goes_bit_by_bit() {
    let mut host = with_unmeasured_session(Bounds {
        sweep_bytes_max: BYTES_MAX,
        ..Bounds::REPLICATED
    });
    call(&mut host, 26 * MINUTE_MS, quota(6_000));
    let (waits, stored) = patiently(&mut host, SESSION_OUTCOMES, |host| {
        let store = StoreRequest {
            key: "large".into(),
            value: vec![7; 3_000].into(),
            ..StoreRequest::default()
        };
        let stored = call(host, 27 * MINUTE_MS, Operation::Store(store));
        stored.outcome.unwrap()
    });
    assert!(matches!(stored, Kind::Store(_)), "{stored:?}");
    assert!((4..60).contains(&waits), "{waits}");
    assert_eq!(host.repairs, 0);
}

#[test]
fn request_outcomes_over_the_byte_quota_go_bit_by_bit() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds {
        principal_requests_min: 1,
        sweep_bytes_max: BYTES_MAX,
        ..Bounds::REPLICATED
    };
    sweep_all(&mut host, 0);
    for id in 0..CALLS {
        call(&mut host, id, put(id));
        call(&mut host, id, take(id));
    }
    call(&mut host, CALLS, quota(2_500));
    let kept = rows(&host, PRINCIPAL_REQUEST_OUTCOMES);
    assert!(kept as u64 > CALLS, "{kept}");
    let (waits, deleted) = patiently(&mut host, PRINCIPAL_REQUEST_OUTCOMES, |host| {
        call(host, CALLS + 1, delete("none")).outcome.unwrap()
    });
    assert!(matches!(deleted, Kind::Delete(_)), "{deleted:?}");
    assert!((4..60).contains(&waits), "{waits}");
    assert_eq!(host.repairs, 0);
}
