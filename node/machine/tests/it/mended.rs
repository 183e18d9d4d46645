//! Rows of orders, of the deadline index and of where it begins, changed behind the machine's back.

use bytes::Bytes;
use helve_machine::limits::{self, Bounds};
use helve_proto::{
    command::v1::{
        NumberRow, Outcome, Refusal, RequestsRow, TenantDeadlinesRow, TombstonesRow,
        command::Operation, outcome::Outcome as Kind,
    },
    v1::{OpenSessionRequest, Quotas, SetTenantRequest, StoreRequest},
};
use prost::Message as _;

use crate::{
    bounded::{DAY_MS, audited, call, commit, host, put, sweep_all, take},
    drift::{TOMBSTONE_SUMMARY, expiring, forge, request_summary},
    host::{GROUP, Host, START_MS, TENANT, command, session_identity},
};

const DEADLINES_FROM: u8 = 5;
const HANDLES: u8 = 16;
const TOMBSTONES: u8 = 18;
const TOMBSTONE_ORDER: u8 = 19;
const SESSION_ORDER: u8 = 28;
const TENANT_DEADLINES: u8 = 37;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Where the rows of one of the tenant's tables begin.
fn table(table: u8) -> Vec<u8> {
    let tenant = TENANT.as_bytes();
    let length = u8::try_from(tenant.len()).unwrap();
    [&GROUP.to_be_bytes()[..], &[length], tenant, &[table]].concat()
}

fn keys(host: &Host, prefix: &[u8]) -> Vec<Bytes> {
    let keys = host.rows.0.keys();
    keys.filter(|key| key.starts_with(prefix))
        .cloned()
        .collect()
}

/// Puts an empty row behind the machine's back.
fn insert(host: &mut Host, parts: &[&[u8]]) {
    let before = host.rows.0.insert(parts.concat().into(), Bytes::new());
    assert_eq!(before, None);
}

fn store(key: &str) -> Operation {
    Operation::Store(StoreRequest {
        key: key.into(),
        ..StoreRequest::default()
    })
}

fn session(number: u8) -> Bytes {
    Bytes::copy_from_slice(&[number; limits::IDENTITY_BYTES])
}

/// Opens a session of a principal.
fn open(host: &mut Host, principal: &str, after_ms: u64, number: u8) -> Result<(), Refusal> {
    let open = OpenSessionRequest {
        session_id: session(number),
    };
    let mut open = command(START_MS + after_ms, Operation::OpenSession(open));
    principal.clone_into(&mut open.principal);
    or_refused(host.apply(&open))
}

/// Makes a call in a session.
fn in_session(host: &mut Host, after_ms: u64, number: u8, seq: u64) -> Result<(), Refusal> {
    let mut call = command(START_MS + after_ms, store("k"));
    call.identity = Some(session_identity(&session(number), seq, seq));
    or_refused(host.apply(&call))
}

fn or_refused(outcome: Outcome) -> Result<(), Refusal> {
    match outcome.outcome {
        Some(Kind::Refused(refused)) => Err(refused.refusal()),
        _ => Ok(()),
    }
}

#[test]
fn session_order_with_wrong_rows_is_mended_and_ends_the_idlest() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds {
        principal_sessions_max: 2,
        ..Bounds::REPLICATED
    };
    sweep_all(&mut host, 0);
    for (principal, number) in [("anonymous", 1), ("anonymous", 2), ("bob", 3)] {
        open(&mut host, principal, 0, number).unwrap();
    }
    let orders = keys(&host, &table(SESSION_ORDER));
    let of_bob = orders.iter().find(|key| key.ends_with(&session(3)));
    host.rows.0.remove(of_bob.unwrap());
    let own = orders.iter().find(|key| key.ends_with(&session(1)));
    let own = own.unwrap();
    let anonymous = &own[..own.len() - 8 - limits::IDENTITY_BYTES];
    // A session that is not there, another deadline than the session's, another principal's session
    // whose own row is not there, and a row that is too short.
    for (early_ms, number) in [(0, 9), (1, 2), (2, 3)] {
        let deadline_ms = START_MS + early_ms;
        insert(
            &mut host,
            &[anonymous, &deadline_ms.to_be_bytes(), &session(number)],
        );
    }
    insert(&mut host, &[anonymous, &[0; 3]]);
    in_session(&mut host, 17 * MINUTE_MS, 2, 1).unwrap();
    let mut rounds = 0;
    while let Err(refusal) = open(&mut host, "anonymous", 18 * MINUTE_MS, 4) {
        assert_eq!(refusal, Refusal::Clearing);
        rounds += 1;
        assert!(rounds < 50, "it does not end");
        // A Tick counts the principal's sessions again.
        sweep_all(&mut host, 18 * MINUTE_MS);
    }
    assert!(host.repairs >= 4, "{} repairs", host.repairs);
    assert_eq!(audited(&host), Ok(()));
    let after_ms = 19 * MINUTE_MS;
    assert_eq!(
        in_session(&mut host, after_ms, 1, 1),
        Err(Refusal::SessionExpired),
        "the idlest"
    );
    assert_eq!(in_session(&mut host, after_ms, 2, 2), Ok(()));
    assert_eq!(in_session(&mut host, after_ms, 4, 1), Ok(()));
    sweep_all(&mut host, 3 * HOUR_MS);
    assert_eq!(audited(&host), Ok(()));
}

#[test]
fn session_without_its_order_row_gets_it_back_or_ends() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds::REPLICATED;
    sweep_all(&mut host, 0);
    for number in [1, 2] {
        open(&mut host, "anonymous", 0, number).unwrap();
    }
    for key in keys(&host, &table(SESSION_ORDER)) {
        host.rows.0.remove(&key);
    }
    assert!(audited(&host).is_err());
    in_session(&mut host, 10 * MINUTE_MS, 1, 1).unwrap();
    assert_eq!(keys(&host, &table(SESSION_ORDER)).len(), 1);
    // The other one is due by now, the first one is not.
    sweep_all(&mut host, 70 * MINUTE_MS);
    assert_eq!(audited(&host), Ok(()));
    assert_eq!(keys(&host, &table(SESSION_ORDER)).len(), 1);
}

#[test]
fn tombstone_order_with_wrong_rows_keeps_each_for_its_day() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds::REPLICATED;
    sweep_all(&mut host, 0);
    for (hour, id) in (0..).zip(["a", "b", "c", "d"]) {
        commit(&mut host, hour * HOUR_MS, [put(id)]);
        commit(&mut host, hour * HOUR_MS, [take(id)]);
    }
    let order = table(TOMBSTONE_ORDER);
    let orders = keys(&host, &order);
    let paths: Vec<_> = orders.iter().map(|key| &key[order.len() + 8..]).collect();
    let at = |after_ms: u64| (START_MS + after_ms).to_be_bytes();
    // One that is not there, one that has its own row as well, and one that has not.
    insert(&mut host, &[&order, &at(1), b"none"]);
    insert(&mut host, &[&order, &at(2), paths[1]]);
    host.rows.0.remove(&orders[2]);
    insert(&mut host, &[&order, &at(3), paths[2]]);
    // One that is too late, and one that is too short.
    host.rows.0.remove(&orders[3]);
    insert(&mut host, &[&order, &at(5 * HOUR_MS), paths[3]]);
    insert(&mut host, &[&order, &[255; 3]]);
    sweep_all(&mut host, DAY_MS + MINUTE_MS);
    let told = keys(&host, &table(TOMBSTONES)).len();
    assert_eq!(told, 3, "all but the first are told for some hours more");
    sweep_all(&mut host, 2 * DAY_MS);
    assert!(keys(&host, &table(TOMBSTONES)).is_empty());
    assert!(host.repairs >= 5, "{} repairs", host.repairs);
    assert_eq!(audited(&host), Ok(()));
}

#[test]
fn tombstone_without_its_order_row_is_written_over() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds::REPLICATED;
    sweep_all(&mut host, 0);
    commit(&mut host, 0, [put("a"), put("b")]);
    commit(&mut host, 0, [take("a"), take("b")]);
    let orders = keys(&host, &table(TOMBSTONE_ORDER));
    host.rows.0.remove(&orders[0]);
    // Their owner hears of them no more.
    commit(&mut host, DAY_MS, [put("a"), put("b")]);
    sweep_all(&mut host, DAY_MS);
    assert!(host.repairs > 0);
    assert_eq!(audited(&host), Ok(()));
}

#[test]
fn deadlines_that_cannot_be_read_are_dropped() {
    let mut host = host(limits::FEATURE_LEVEL);
    sweep_all(&mut host, 0);
    call(&mut host, 0, expiring("a", 5));
    let index = [&GROUP.to_be_bytes()[..], &[0, 2]].concat();
    let at = (START_MS + 20).to_be_bytes();
    // No kind, a kind that no version has, a name that is no text, no name, and a recount of nothing.
    for rest in [&[][..], &[99, 0], &[1, 1, 255], &[1, 9], &[7, 0, 99]] {
        insert(&mut host, &[&index, &at, rest]);
    }
    insert(&mut host, &[&index, &(START_MS + 1024).to_be_bytes()[..7]]);
    sweep_all(&mut host, 30);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 6));
}

#[test]
fn deadlines_before_their_beginning_are_found_within_a_day() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds::REPLICATED;
    sweep_all(&mut host, 0);
    call(&mut host, 0, expiring("a", 1_000));
    let forged = forge(&mut host, DEADLINES_FROM, |row: &mut NumberRow| {
        row.value = START_MS + 9 * DAY_MS;
    });
    assert_eq!(forged, 1);
    assert!(audited(&host).is_err());
    sweep_all(&mut host, DAY_MS);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
    assert!(keys(&host, &table(HANDLES)).is_empty());
}

#[test]
fn tenants_deadlines_before_their_beginning_go_with_a_tick() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds::REPLICATED;
    sweep_all(&mut host, 0);
    let quota = SetTenantRequest {
        tenant: TENANT.into(),
        quotas: Some(Quotas {
            rows: 1,
            ..Quotas::default()
        }),
        ..SetTenantRequest::default()
    };
    call(&mut host, 0, Operation::SetTenant(quota));
    call(&mut host, 0, expiring("a", 1_000));
    let late = TenantDeadlinesRow {
        records_from_ms: START_MS + DAY_MS,
        ..TenantDeadlinesRow::default()
    };
    let late = [&[1][..], &late.encode_to_vec()].concat();
    host.rows
        .0
        .insert(table(TENANT_DEADLINES).into(), late.into());
    let stored = call(&mut host, 2_000, store("b"));
    assert_eq!(or_refused(stored), Err(Refusal::Quota));
    sweep_all(&mut host, 2_000);
    let stored = call(&mut host, 2_000, store("b"));
    assert_eq!(or_refused(stored), Ok(()));
    assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
}

#[test]
fn summaries_with_too_late_a_time_lose_no_row() {
    let mut host = host(limits::FEATURE_LEVEL);
    host.bounds = Bounds::REPLICATED;
    sweep_all(&mut host, 0);
    commit(&mut host, 0, [put("a")]);
    commit(&mut host, 1, [take("a")]);
    let late = Some(START_MS + 3 * DAY_MS);
    let requests = request_summary(limits::FEATURE_LEVEL);
    let forged = forge(&mut host, TOMBSTONE_SUMMARY, |row: &mut TombstonesRow| {
        row.due_ms = late;
    });
    let forged = forged
        + forge(&mut host, requests, |row: &mut RequestsRow| {
            row.due_ms = late;
        });
    assert_eq!(forged, 2);
    sweep_all(&mut host, 2 * DAY_MS);
    sweep_all(&mut host, 4 * DAY_MS);
    assert!(keys(&host, &table(TOMBSTONES)).is_empty());
    assert!(host.repairs > 0);
    assert_eq!(audited(&host), Ok(()));
}
