//! The machine at its bounds, lowered so that a few commands reach them.

use bytes::Bytes;
use helve_machine::{audit, limits, limits::Bounds};
use helve_proto::{
    command::v1::{
        Command, Outcome, RaiseFeatureLevel, Tick, command::Operation, outcome::Outcome as Kind,
    },
    v1::{
        DeleteOperation, Lifetime, MintOperation, OpenSessionRequest, Operation as Part,
        PutOperation, Quotas, RenewOperation, SetTenantRequest, StoreOperation, TakeOperation,
        TransactRequest, Unit, lifetime::Absolute, operation, transact_reply,
    },
};
use proptest::{collection::vec, prelude::*};

use crate::host::{GROUP, Host, START_MS, TENANT, command, request_identity, session_identity};

pub(crate) const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Bounds that a few commands reach.
const LOW: Bounds = Bounds {
    tombstones_max: 2,
    tombstones_min: 1,
    sessions_max: 3,
    principal_sessions_max: 2,
    principal_sessions_min: 1,
    session_outcomes_min: 1,
    session_window_calls_max: 3,
    requests_max: 3,
    principal_requests_max: 3,
    principal_requests_min: 1,
    tenants_max: 2,
    tokens_max: 2,
    taken_bytes_max: 40,
    tick_rows_max: 3,
    room_rows_max: 2,
    room_looks_max: 3,
    sweep_bytes_max: 40,
};

pub(crate) fn host(level: u32) -> Host {
    let mut host = Host {
        bounds: LOW,
        ..Host::default()
    };
    let raise = RaiseFeatureLevel { level };
    host.apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
    host
}

pub(crate) fn take(id: &str) -> operation::Operation {
    operation::Operation::Take(TakeOperation {
        store: "cart".into(),
        id: id.into(),
        ..TakeOperation::default()
    })
}

pub(crate) fn put(id: &str) -> operation::Operation {
    operation::Operation::Put(PutOperation {
        store: "cart".into(),
        id: id.into(),
        ..PutOperation::default()
    })
}

fn transact(parts: impl IntoIterator<Item = operation::Operation>) -> Operation {
    let part = |operation| Part {
        operation: Some(operation),
    };
    Operation::Transact(TransactRequest {
        identity: None,
        operations: parts.into_iter().map(part).collect(),
    })
}

/// Carries an operation out as a call of its own, so long after the start.
pub(crate) fn call(host: &mut Host, after_ms: u64, operation: Operation) -> Outcome {
    let stamp_ms = START_MS + after_ms;
    let mut command = command(stamp_ms, operation);
    command.identity = Some(request_identity(stamp_ms, host.index));
    host.apply(&command)
}

pub(crate) fn commit(
    host: &mut Host,
    after_ms: u64,
    parts: impl IntoIterator<Item = operation::Operation>,
) {
    let outcome = call(host, after_ms, transact(parts));
    let Some(Kind::Transact(reply)) = &outcome.outcome else {
        panic!("{outcome:?}");
    };
    let result = reply.result.as_ref().unwrap();
    assert!(
        matches!(result, transact_reply::Result::Committed(_)),
        "{result:?}"
    );
}

/// A tenant at the bound of tombstones, whose oldest, B, is told no more and not removed yet: a transaction evicts it and writes
/// under its id.
fn evict_and_write_over(host: &mut Host) {
    commit(host, 0, [put("B"), put("C")]);
    commit(host, 1, [take("B")]);
    commit(host, 2, [take("C")]);
    commit(host, DAY_MS + 1, [put("A")]);
    commit(host, DAY_MS + 1, [take("A"), put("B")]);
}

pub(crate) fn sweep_all(host: &mut Host, after_ms: u64) {
    while host.tick(START_MS + after_ms, limits::TICK_ROWS_MAX).1 {}
}

pub(crate) fn audited(host: &Host) -> Result<(), String> {
    audit(&host.rows, GROUP).map_err(|fault| fault.to_string())
}

#[test]
fn a_tombstone_that_a_transaction_evicts_and_writes_over_counts_once() {
    let mut host = host(limits::FEATURE_LEVEL);
    evict_and_write_over(&mut host);
    assert_eq!(audited(&host), Ok(()));
    sweep_all(&mut host, 3 * DAY_MS);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 0));
}

#[test]
fn a_count_that_older_levels_got_wrong_is_mended_where_it_shows() {
    let mut host = host(4);
    evict_and_write_over(&mut host);
    assert!(audited(&host).is_err(), "level 4 keeps its meaning");
    sweep_all(&mut host, 3 * DAY_MS);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
}

#[test]
fn a_count_that_is_too_low_loses_no_tombstone_at_the_new_level() {
    let mut host = host(4);
    evict_and_write_over(&mut host);
    let raise = RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    };
    host.apply(&command(
        START_MS + DAY_MS + 1,
        Operation::RaiseFeatureLevel(raise),
    ));
    let raised = host.repairs;
    assert_eq!(
        raised, 0,
        "the raise itself only has tombstones counted later"
    );
    // The only tombstone that is counted goes, and there is another one.
    commit(&mut host, 2 * DAY_MS + 2, [put("A")]);
    sweep_all(&mut host, 2 * DAY_MS + 2);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
    sweep_all(&mut host, 4 * DAY_MS);
    assert_eq!(audited(&host), Ok(()));
}

/// Below the level, uncounted tombstones are never removed.
#[test]
fn the_raise_finds_tombstones_that_older_levels_lost_sight_of() {
    let mut host = host(4);
    evict_and_write_over(&mut host);
    commit(&mut host, 2 * DAY_MS + 2, [put("A")]);
    sweep_all(&mut host, 5 * DAY_MS);
    let tombstones = |host: &Host| {
        host.rows
            .0
            .keys()
            .filter(|key| key.get(5 + 7) == Some(&18))
            .count()
    };
    assert_eq!(tombstones(&host), 1, "lost sight of");
    let raise = RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    };
    let after_ms = 5 * DAY_MS;
    host.apply(&command(
        START_MS + after_ms,
        Operation::RaiseFeatureLevel(raise),
    ));
    sweep_all(&mut host, after_ms);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
    assert_eq!(tombstones(&host), 0);
}

fn id() -> impl Strategy<Value = String> {
    (0_u8..3).prop_map(|number| number.to_string())
}

fn lifetime() -> impl Strategy<Value = Option<Lifetime>> {
    let absolute = prop_oneof![
        Just(Absolute::Never(Unit {})),
        (1_u64..100_000).prop_map(Absolute::AfterMs)
    ];
    let lifetime = absolute.prop_map(|absolute| Lifetime {
        absolute: Some(absolute),
        idle_ttl_ms: None,
    });
    proptest::option::of(lifetime)
}

fn part() -> impl Strategy<Value = operation::Operation> {
    use operation::Operation as Op;
    let cart = || "cart".to_owned();
    let value = || vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    prop_oneof![
        5 => (id(), value(), lifetime()).prop_map(move |(id, value, lifetime)| Op::Put(PutOperation { store: cart(), id, value, lifetime, ..PutOperation::default() })),
        5 => id().prop_map(|id| take(&id)),
        1 => id().prop_map(move |id| Op::Delete(DeleteOperation { store: cart(), id, ..DeleteOperation::default() })),
        1 => (value(), lifetime()).prop_map(move |(value, lifetime)| Op::Mint(MintOperation { store: cart(), value, lifetime, ..MintOperation::default() })),
        1 => (id(), lifetime()).prop_map(move |(id, lifetime)| Op::Renew(RenewOperation { store: cart(), id, lifetime, ..RenewOperation::default() })),
        1 => (id(), value(), lifetime()).prop_map(|(key, value, lifetime)| Op::Store(StoreOperation { key, value, lifetime, ..StoreOperation::default() })),
    ]
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let tenant = |number: u8, rows, bytes| {
        Operation::SetTenant(SetTenantRequest {
            tenant: if number == 0 {
                TENANT.to_owned()
            } else {
                format!("t{number}")
            },
            quotas: Some(Quotas {
                rows,
                bytes,
                writes_per_second: 0,
            }),
            ..SetTenantRequest::default()
        })
    };
    prop_oneof![
        6 => vec(part(), 1..5).prop_map(transact),
        6 => (id(), id()).prop_map(|(taken, written)| transact([take(&taken), put(&written)])),
        5 => crate::properties::operation(),
        1 => (0_u8..4, 0_u64..4, prop_oneof![0_u64..900, 0_u64..5_000]).prop_map(move |(number, rows, bytes)| tenant(number, rows, bytes)),
        1 => (1_u32..9).prop_map(|rows_max| Operation::Tick(Tick { rows_max })),
    ]
}

/// Often to where a tombstone, a session or an outcome is due and not removed yet.
pub(crate) fn step() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0_u64..5_000,
        3 => DAY_MS..DAY_MS + 500_000,
        1 => 4_000_000_u64..4_400_000,
        1 => 5_000_u64..1_300_000,
        1 => Just(3 * DAY_MS),
    ]
}

/// A tenant whose sessions were opened below the level, with outcomes that are not measured, just
/// after the raise.
fn with_unmeasured_sessions() -> Host {
    let mut host = host(4);
    for (session, principal) in [(0, "anonymous"), (1, "anonymous"), (2, "bob")] {
        let session_id = crate::properties::session_id(session);
        let open = OpenSessionRequest {
            session_id: session_id.clone(),
        };
        let mut open = command(START_MS, Operation::OpenSession(open));
        principal.clone_into(&mut open.principal);
        host.apply(&open);
        for seq in 1..=LOW.session_window_calls_max {
            let mut call = command(START_MS, transact([put("0")]));
            principal.clone_into(&mut call.principal);
            call.identity = Some(session_identity(&session_id, seq, 1));
            host.apply(&call);
        }
    }
    let level = limits::FEATURE_LEVEL;
    let raise = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
    host.apply(&command(START_MS, raise));
    host
}

fn in_batches(host: &mut Host, commands: &[Command], rows: usize) -> Vec<Outcome> {
    let chunks = commands.chunks(rows);
    chunks.flat_map(|chunk| host.apply_all(chunk)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn at_lowered_bounds_derived_rows_agree_after_every_command(commands in crate::properties::commands_of(operation(), step()), batch in 2_usize..20) {
        let mut one_by_one = host(limits::FEATURE_LEVEL);
        let mut outcomes = Vec::new();
        for command in &commands {
            outcomes.push(one_by_one.apply(command));
            prop_assert_eq!(audited(&one_by_one), Ok(()), "{:?}", command);
        }
        let mut batched = host(limits::FEATURE_LEVEL);
        prop_assert_eq!(in_batches(&mut batched, &commands, batch), outcomes);
        prop_assert_eq!(&batched.rows, &one_by_one.rows);
        prop_assert_eq!(one_by_one.repairs, 0);
    }

    #[test]
    fn sessions_from_below_the_level_agree_after_every_command(commands in crate::properties::commands_of(operation(), step()), batch in 2_usize..20) {
        let mut one_by_one = with_unmeasured_sessions();
        let mut outcomes = Vec::new();
        for command in &commands {
            outcomes.push(one_by_one.apply(command));
            prop_assert_eq!(audited(&one_by_one), Ok(()), "{:?}", command);
        }
        let mut batched = with_unmeasured_sessions();
        prop_assert_eq!(in_batches(&mut batched, &commands, batch), outcomes);
        prop_assert_eq!(&batched.rows, &one_by_one.rows);
        prop_assert_eq!(one_by_one.repairs, 0);
    }

    #[test]
    fn at_lowered_bounds_no_level_faults_and_the_newest_mends(commands in crate::properties::commands_of(operation(), step()), batch in 2_usize..20) {
        let mut one_by_one = host(1);
        let outcomes = in_batches(&mut one_by_one, &commands, 1);
        let mut batched = host(1);
        prop_assert_eq!(in_batches(&mut batched, &commands, batch), outcomes);
        prop_assert_eq!(&batched.rows, &one_by_one.rows);
        let after_ms = commands.last().unwrap().proposed_at_ms - START_MS + 2 * DAY_MS;
        let raise = RaiseFeatureLevel { level: limits::FEATURE_LEVEL };
        batched.apply(&command(START_MS + after_ms, Operation::RaiseFeatureLevel(raise)));
        sweep_all(&mut batched, after_ms);
        prop_assert_eq!(audited(&batched), Ok(()));
    }
}
