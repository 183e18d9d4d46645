//! Bytes that a client or a peer makes up: refused, or carried out; never a fault of a replica's own, which would stop it.

use bytes::Bytes;
use helve_machine::{Batch, Context, Fault, apply, check, limits, query};
use helve_proto::{
    command::v1::{
        AllocateNodeId, Command, RaiseFeatureLevel, SetClusterId, Tick, command::Operation,
    },
    v1::{
        BatchStoreRequest, CallIdentity, ExchangeCall, ExchangeRequest, GetRequest, Lifetime,
        ListKeysRequest, ListRequest, MintRequest, Operation as TransactOperation, PutRequest,
        RetrieveRequest, SetTenantRequest, StoreItem, StoreOperation, StoreRequest,
        TransactRequest, Unit, exchange_call::Call, lifetime::Absolute,
        operation::Operation as Kind,
    },
};
use proptest::{collection::vec, prelude::*, sample::Index};
use prost::Message;

use crate::host::{GROUP, Host, START_MS, TENANT, command, request_identity, stamp_minted_ids};

/// Ten thousand, or as many as the environment asks for.
#[expect(
    clippy::disallowed_methods,
    reason = "it says how many questions are asked, not how they are answered"
)]
fn cases() -> ProptestConfig {
    let cases = std::env::var("HELVE_CASES").ok();
    ProptestConfig {
        cases: cases.map_or(10_000, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn lifetime() -> Option<Lifetime> {
    Some(Lifetime {
        absolute: Some(Absolute::Never(Unit {})),
        idle_ttl_ms: Some(5000),
    })
}

/// Calls as clients make them, to change bits of.
fn calls() -> Vec<Call> {
    let (store, owner, id, key) = ("cart", "ann", "cart-1", "users/7");
    let identity = Some(request_identity(START_MS, 7));
    let value = Bytes::from_static(b"{}");
    vec![
        Call::Mint(MintRequest {
            identity: identity.clone(),
            store: store.into(),
            owner: owner.into(),
            id_prefix: "cart".into(),
            value: value.clone(),
            lifetime: lifetime(),
        }),
        Call::Put(PutRequest {
            identity: identity.clone(),
            store: store.into(),
            owner: owner.into(),
            id: id.into(),
            value: value.clone(),
            lifetime: lifetime(),
            if_revision: Some(0),
        }),
        Call::Get(GetRequest {
            store: store.into(),
            owner: owner.into(),
            id: id.into(),
        }),
        Call::Store(StoreRequest {
            identity: identity.clone(),
            owner: owner.into(),
            key: key.into(),
            value: value.clone(),
            lifetime: lifetime(),
            if_revision: None,
        }),
        Call::Retrieve(RetrieveRequest {
            owner: owner.into(),
            key: key.into(),
        }),
        Call::BatchStore(BatchStoreRequest {
            identity: identity.clone(),
            owner: owner.into(),
            items: vec![StoreItem {
                key: key.into(),
                value: value.clone(),
                lifetime: lifetime(),
                if_revision: Some(3),
            }],
        }),
        Call::Transact(TransactRequest {
            identity,
            operations: vec![TransactOperation {
                operation: Some(Kind::Store(StoreOperation {
                    owner: owner.into(),
                    key: key.into(),
                    value,
                    lifetime: lifetime(),
                    if_revision: None,
                })),
            }],
        }),
    ]
}

fn encoded(call: Call) -> Vec<u8> {
    let call = ExchangeCall {
        correlation_id: 1,
        timeout_ms: 0,
        call: Some(call),
    };
    ExchangeRequest { calls: vec![call] }.encode_to_vec()
}

/// Noise, and these messages with some of their bytes changed, cut out or put in.
fn bytes_like(real: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = vec((any::<Index>(), any::<u8>(), 0..3_u8), 0..6);
    let edited = (prop::sample::select(real), edits).prop_map(|(mut bytes, edits)| {
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => {
                    bytes.remove(at);
                }
                _ => {}
            }
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..200), 4 => edited]
}

/// Commands as nodes forward them and make them, to change bits of.
fn commands() -> Vec<Vec<u8>> {
    let own = [
        Operation::Tick(Tick { rows_max: 4 }),
        Operation::AllocateNodeId(AllocateNodeId::default()),
        Operation::SetClusterId(SetClusterId {
            cluster_id: "cluster".into(),
        }),
        Operation::RaiseFeatureLevel(RaiseFeatureLevel { level: 2 }),
        Operation::SetTenant(SetTenantRequest {
            tenant: "acme".into(),
            ..SetTenantRequest::default()
        }),
    ];
    let own = own.map(|operation| command(START_MS, operation));
    let forwarded = calls().into_iter().filter_map(mutation);
    let forwarded = forwarded.map(|(identity, operation)| Command {
        identity,
        fingerprint: Bytes::from_static(&[1; limits::FINGERPRINT_BYTES]),
        ..command(START_MS, operation)
    });
    let all = own.into_iter().chain(forwarded);
    all.map(|mut command| {
        stamp_minted_ids(&mut command, 1);
        command.encode_to_vec()
    })
    .collect()
}

fn mutation(call: Call) -> Option<(Option<CallIdentity>, Operation)> {
    Some(match call {
        Call::Mint(mut r) => (r.identity.take(), Operation::Mint(r)),
        Call::Put(mut r) => (r.identity.take(), Operation::Put(r)),
        Call::Take(mut r) => (r.identity.take(), Operation::Take(r)),
        Call::Renew(mut r) => (r.identity.take(), Operation::Renew(r)),
        Call::Delete(mut r) => (r.identity.take(), Operation::Delete(r)),
        Call::Store(mut r) => (r.identity.take(), Operation::Store(r)),
        Call::DeleteKey(mut r) => (r.identity.take(), Operation::DeleteKey(r)),
        Call::BatchStore(mut r) => (r.identity.take(), Operation::BatchStore(r)),
        Call::Transact(mut r) => (r.identity.take(), Operation::Transact(r)),
        Call::Get(_)
        | Call::Count(_)
        | Call::Retrieve(_)
        | Call::Exists(_)
        | Call::BatchRetrieve(_)
        | Call::OpenSession(_) => return None,
    })
}

fn read(host: &mut Host, call: &Call) {
    match call {
        Call::Get(r) if check::get(r).is_ok() => {
            host.read(START_MS, |rows, scope| query::get(rows, scope, r));
        }
        Call::Count(r) if check::count(r).is_ok() => {
            host.read(START_MS, |rows, scope| query::count(rows, scope, r));
        }
        Call::Retrieve(r) if check::retrieve(r).is_ok() => {
            host.read(START_MS, |rows, scope| query::retrieve(rows, scope, r));
        }
        Call::Exists(r) if check::exists(r).is_ok() => {
            host.read(START_MS, |rows, scope| query::exists(rows, scope, r));
        }
        Call::BatchRetrieve(r) if check::batch_retrieve(r).is_ok() => {
            host.read(START_MS, |rows, scope| {
                query::batch_retrieve(rows, scope, r)
            });
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn bytes_on_the_wire_are_refused_or_carried_out_and_are_never_a_fault(
        bytes in bytes_like(calls().into_iter().map(encoded).collect()),
    ) {
        let Ok(request) = ExchangeRequest::decode(&bytes[..]) else {
            return Ok(());
        };
        let mut host = Host::default();
        for call in request.calls.into_iter().filter_map(|call| call.call) {
            read(&mut host, &call);
            let Some((identity, operation)) = mutation(call) else {
                continue;
            };
            let mut command = command(START_MS, operation);
            command.identity = identity;
            command.fingerprint = Bytes::from_static(&[1; limits::FINGERPRINT_BYTES]);
            stamp_minted_ids(&mut command, 1);
            if check(&command).is_ok() {
                host.apply(&command);
            }
        }
    }

    #[test]
    fn a_command_that_a_peer_makes_up_is_refused_or_carried_out_or_needs_a_newer_version(
        bytes in bytes_like(commands()),
    ) {
        let Ok(made_up) = Command::decode(&bytes[..]) else {
            return Ok(());
        };
        let mut host = Host::default();
        for bytes in commands() {
            host.apply(&Command::decode(&bytes[..]).unwrap());
        }
        let context = Context { group_id: GROUP, index: host.index + 1 };
        let mut batch = Batch::new(&host.rows);
        match apply(&context, &made_up, &mut batch) {
            Ok(_) => prop_assert!(batch.finish().is_ok()),
            Err(fault) => prop_assert!(matches!(fault, Fault::FeatureLevel { .. }), "{}", fault),
        }
    }

    #[test]
    fn a_list_resumes_at_any_token_that_a_client_makes_up(
        token in vec(any::<u8>(), 0..60),
        prefix in "\\PC{0,8}",
        owner in "\\PC{0,4}",
        with_values: bool,
        limit in 0_u64..4,
        after in "\\PC{0,6}",
    ) {
        let mut host = Host::default();
        for call in calls() {
            let Some((identity, operation)) = mutation(call) else {
                continue;
            };
            let mut command = command(START_MS, operation);
            command.identity = identity;
            stamp_minted_ids(&mut command, 1);
            command.fingerprint = Bytes::from_static(&[1; limits::FINGERPRINT_BYTES]);
            host.apply(&command);
        }
        let page = query::Page { rows_max: 2, bytes_max: 1000 };
        let scope = query::Scope { group_id: GROUP, tenant: TENANT, stamp_ms: START_MS };
        let resume_token = Bytes::from(token);
        let keys = ListKeysRequest {
            owner: owner.clone(),
            prefix,
            with_values,
            resume_token: resume_token.clone(),
            after: after.clone(),
            keys_max: limit,
        };
        if check::list_keys(&keys).is_ok() {
            prop_assert!(query::list_keys(&host.rows, &scope, &keys, page).is_ok());
        }
        let handles = ListRequest {
            store: "cart".into(),
            owner: Some(owner),
            with_values,
            resume_token,
            handles_max: limit,
            after,
        };
        if check::list(&handles).is_ok() {
            prop_assert!(query::list(&host.rows, &scope, &handles, page).is_ok());
        }
    }
}
