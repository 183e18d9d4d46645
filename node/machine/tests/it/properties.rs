//! What holds for any sequence of commands.

use bytes::Bytes;
use helve_machine::{audit, limits};
use helve_proto::{
    command::v1::{
        Command, RaiseFeatureLevel, Tick, Touch, TouchHandle, command::Operation, touch::Record,
    },
    v1::{
        ClaimAbandon, ClaimBegin, ClaimFinish, ClaimRequest, CreateTokenRequest, DeleteKeyRequest,
        DeleteRequest, Lifetime, MintRequest, OpenSessionRequest, Operation as TransactOperation,
        PutRequest, Quotas, RenewRequest, RevokeTokenRequest, SetTenantRequest, StoreOperation,
        StoreRequest, TakeOperation, TakeRequest, TokenGrant, TransactRequest, Unit,
        claim_request::Action, lifetime::Absolute, operation,
    },
};
use proptest::{collection::vec, prelude::*};

use crate::host::{
    GROUP, Host, START_MS, command, request_identity, session_identity, stamp_minted_ids,
};

fn lifetime() -> impl Strategy<Value = Option<Lifetime>> {
    let absolute = prop_oneof![
        Just(Absolute::Never(Unit {})),
        Just(Absolute::Keep(Unit {})),
        (1_u64..100_000).prop_map(Absolute::AfterMs),
    ];
    let idle = proptest::option::of(1_u64..50_000);
    proptest::option::of(
        (absolute, idle).prop_map(|(absolute, idle_ttl_ms)| Lifetime {
            absolute: Some(absolute),
            idle_ttl_ms,
        }),
    )
}

fn id() -> impl Strategy<Value = String> {
    (0_u8..4).prop_map(|number| number.to_string())
}

fn owner() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just("ann".to_owned())]
}

fn if_revision() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![4 => Just(None), 1 => (0_u64..20).prop_map(Some)]
}

fn value() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

prop_compose! {
    fn put()(id in id(), owner in owner(), value in value(), lifetime in lifetime(), if_revision in if_revision()) -> Operation {
        Operation::Put(PutRequest { identity: None, store: "cart".into(), owner, id, value, lifetime, if_revision })
    }
}

prop_compose! {
    fn store()(key in id(), owner in owner(), value in value(), lifetime in lifetime(), if_revision in if_revision()) -> Operation {
        Operation::Store(StoreRequest { identity: None, owner, key, value, lifetime, if_revision })
    }
}

prop_compose! {
    fn transact()(id in id(), key in id(), owner in owner(), value in value(), lifetime in lifetime()) -> Operation {
        let parts = [
            operation::Operation::Take(TakeOperation { store: "cart".into(), owner: owner.clone(), id, if_revision: None }),
            operation::Operation::Store(StoreOperation { owner, key, value, lifetime, if_revision: None }),
        ];
        let operations = parts.map(|part| TransactOperation { operation: Some(part) }).to_vec();
        Operation::Transact(TransactRequest { identity: None, operations })
    }
}

pub(crate) fn session_id(number: u8) -> Bytes {
    Bytes::copy_from_slice(&[number; limits::IDENTITY_BYTES])
}

fn token_hash(number: u8) -> Bytes {
    Bytes::copy_from_slice(&[number; limits::TOKEN_HASH_BYTES])
}

/// With fences as low as the indexes of the first commands.
pub(crate) fn claim(store: &'static str) -> impl Strategy<Value = Operation> {
    let fence = || 1_u64..30;
    let result_ttl = proptest::option::of(1_u64..100_000);
    let begin = (vec(0_u8..2, 1..2), 1_u64..50_000, value());
    let action = prop_oneof![
        3 => begin.prop_map(|(digest, lease_ms, note)| Action::Begin(ClaimBegin { digest: digest.into(), lease_ms, note })),
        2 => (fence(), value(), result_ttl).prop_map(|(fence, result, result_ttl_ms)| Action::Finish(ClaimFinish { fence, result, result_ttl_ms })),
        1 => (fence(), any::<bool>()).prop_map(|(fence, never_happened)| Action::Abandon(ClaimAbandon { fence, never_happened })),
    ];
    (id(), owner(), action).prop_map(move |(id, owner, action)| {
        Operation::Claim(ClaimRequest {
            identity: None,
            store: store.into(),
            id,
            owner,
            action: Some(action),
        })
    })
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let cart = || "cart".to_owned();
    prop_oneof![
        4 => put(),
        2 => store(),
        2 => claim("cart"),
        2 => transact(),
        2 => (value(), lifetime()).prop_map(move |(value, lifetime)| Operation::Mint(MintRequest { store: cart(), value, lifetime, ..MintRequest::default() })),
        2 => (id(), owner()).prop_map(move |(id, owner)| Operation::Take(TakeRequest { store: cart(), id, owner, ..TakeRequest::default() })),
        1 => (id(), owner()).prop_map(move |(id, owner)| Operation::Delete(DeleteRequest { store: cart(), id, owner, ..DeleteRequest::default() })),
        1 => (id(), lifetime()).prop_map(move |(id, lifetime)| Operation::Renew(RenewRequest { store: cart(), id, lifetime, ..RenewRequest::default() })),
        1 => id().prop_map(|key| Operation::DeleteKey(DeleteKeyRequest { key, ..DeleteKeyRequest::default() })),
        1 => (0_u8..4).prop_map(|number| Operation::OpenSession(OpenSessionRequest { session_id: session_id(number) })),
        2 => (0_u32..=limits::FEATURE_LEVEL).prop_map(|level| Operation::RaiseFeatureLevel(RaiseFeatureLevel { level })),
        1 => (0_u64..6, 0_u64..900).prop_map(|(rows, bytes)| Operation::SetTenant(SetTenantRequest { tenant: "default".into(), quotas: Some(Quotas { rows, bytes, writes_per_second: 0 }), ..Default::default() })),
        1 => (0_u8..3, proptest::option::of(1_u64..100_000)).prop_map(|(number, expires_after_ms)| Operation::CreateToken(CreateTokenRequest { token_hash: token_hash(number), grant: Some(TokenGrant { tenant: "default".into(), ..TokenGrant::default() }), expires_after_ms, ..Default::default() })),
        1 => (0_u8..3).prop_map(|number| Operation::RevokeToken(RevokeTokenRequest { tenant: "default".into(), token_hash: token_hash(number), ..Default::default() })),
        1 => (0_u32..3).prop_map(|rows_max| Operation::Tick(Tick { rows_max })),
        1 => id().prop_map(move |id| Operation::Touch(Touch { record: Some(Record::Handle(TouchHandle { store: cart(), id, owner: String::new() })) })),
    ]
}

/// How a call is identified: by session and number, or by an earlier or new request id.
#[derive(Debug, Clone)]
enum Caller {
    Session {
        number: u8,
        seq: u64,
        first_incomplete: u64,
    },
    Request {
        number: u64,
    },
}

fn caller() -> impl Strategy<Value = Caller> {
    prop_oneof![
        (0_u8..4, 1_u64..12, 1_u64..6).prop_map(|(number, seq, first_incomplete)| {
            Caller::Session {
                number,
                seq,
                first_incomplete,
            }
        }),
        (0_u64..30).prop_map(|number| Caller::Request { number }),
    ]
}

/// How far a command's stamp is from the one before: mostly a little, sometimes past a lifetime, sometimes past everything.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0_u64..5_000, 3 => 5_000_u64..200_000, 1 => 600_000_u64..90_000_000]
}

pub(crate) fn commands() -> impl Strategy<Value = Vec<Command>> {
    commands_of(operation(), step())
}

/// Commands with these operations, each of some caller's and some time after the one before.
pub(crate) fn commands_of(
    operation: impl Strategy<Value = Operation>,
    step: impl Strategy<Value = u64>,
) -> impl Strategy<Value = Vec<Command>> {
    let principal = prop_oneof![3 => Just("anonymous"), 1 => Just("bob")];
    vec((operation, caller(), step, principal), 1..60).prop_map(|calls| {
        let mut stamp_ms = START_MS;
        let mut commands = Vec::new();
        for (index, (operation, caller, step_ms, principal)) in calls.into_iter().enumerate() {
            stamp_ms += step_ms;
            let mut command = command(stamp_ms, operation);
            principal.clone_into(&mut command.principal);
            command.fingerprint = Bytes::from_static(&[1; limits::FINGERPRINT_BYTES]);
            command.identity = Some(match caller {
                Caller::Session {
                    number,
                    seq,
                    first_incomplete,
                } => session_identity(&session_id(number), seq, first_incomplete),
                Caller::Request { number } => request_identity(stamp_ms - number * 1000, number),
            });
            stamp_minted_ids(&mut command, index as u64);
            commands.push(command);
        }
        commands
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_by_one_is_as_in_batches_of_any_size_and_derived_rows_agree(commands in commands(), batch in 2_usize..20) {
        let mut one_by_one = Host::default();
        let mut outcomes = Vec::new();
        for command in &commands {
            outcomes.push(one_by_one.apply(command));
            prop_assert!(audit(&one_by_one.rows, GROUP).is_ok(), "{:?}", audit(&one_by_one.rows, GROUP));
        }
        let mut at_once = Host::default();
        prop_assert_eq!(&at_once.apply_all(&commands), &outcomes);
        prop_assert_eq!(&at_once.rows, &one_by_one.rows);
        prop_assert_eq!(&at_once.changes, &one_by_one.changes);
        let mut in_batches = Host::default();
        let again: Vec<_> = commands.chunks(batch).flat_map(|chunk| in_batches.apply_all(chunk)).collect();
        prop_assert_eq!(&again, &outcomes);
        prop_assert_eq!(&in_batches.rows, &one_by_one.rows);
    }

    #[test]
    fn ticks_change_no_answer(commands in commands(), rows_max in 1_u32..50, level in 1..=limits::FEATURE_LEVEL) {
        // A level may charge for what a row leaves behind, and does so if it was raised before the row was removed.
        let is_left_out = |command: &Command| matches!(command.operation, Some(Operation::Tick(_) | Operation::RaiseFeatureLevel(_)));
        let commands: Vec<_> = commands.into_iter().filter(|command| !is_left_out(command)).collect();
        let (mut late, mut at_once) = (Host::default(), Host::default());
        for host in [&mut late, &mut at_once] {
            host.apply(&command(START_MS, Operation::RaiseFeatureLevel(RaiseFeatureLevel { level })));
        }
        for command in &commands {
            at_once.tick(command.proposed_at_ms, rows_max);
            prop_assert_eq!(late.apply(command), at_once.apply(command));
        }
    }

    #[test]
    fn every_retry_gets_the_first_outcome(operation in operation(), others in commands()) {
        let mut host = Host::default();
        let mut call = command(START_MS, operation);
        if matches!(call.operation, Some(Operation::OpenSession(_) | Operation::Tick(_) | Operation::Touch(_) | Operation::RaiseFeatureLevel(_) | Operation::CreateToken(_) | Operation::RevokeToken(_) | Operation::SetTenant(_))) {
            return Ok(());
        }
        if matches!(call.operation, Some(Operation::Claim(_))) {
            // Below its level a claim is refused, and the refusal is not kept.
            let level = limits::FEATURE_LEVEL;
            host.apply(&command(START_MS, Operation::RaiseFeatureLevel(RaiseFeatureLevel { level })));
        }
        call.identity = Some(request_identity(START_MS, 1_000));
        call.fingerprint = Bytes::from_static(&[2; limits::FINGERPRINT_BYTES]);
        stamp_minted_ids(&mut call, 1_000);
        let first = host.apply(&call);
        for other in others.iter().take_while(|other| other.proposed_at_ms <= START_MS + limits::REQUEST_TTL_MS) {
            host.apply(other);
            let rows = host.rows.clone();
            stamp_minted_ids(&mut call, 2_000);
            prop_assert_eq!(&host.apply(&call), &first);
            prop_assert!(host.rows.0.len() <= rows.0.len() + 2, "a retry wrote rows of its own");
        }
    }
}
