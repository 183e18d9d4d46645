//! What the machine is given that a client or a peer made up. Shared by property tests and fuzz
//! targets.

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, Selection, apply, check, limits, query,
    window::{Next, Part, Window},
};
use helve_proto::{
    command::v1::{
        AllocateNodeId, Command, RaiseFeatureLevel, SetClusterId, Tick, command::Operation,
    },
    v1::{
        BatchStoreRequest, CallIdentity, ClaimBegin, ClaimRequest, ExchangeRequest, GetRequest,
        Lifetime, ListKeysRequest, ListRequest, MintRequest, Operation as TransactOperation,
        PutRequest, RetrieveRequest, SetTenantRequest, StoreItem, StoreOperation, StoreRequest,
        TransactRequest, Unit, WatchRequest, claim_request::Action, exchange_call::Call,
        lifetime::Absolute, operation::Operation as Kind,
    },
};
use prost::Message;

use crate::host::{GROUP, Host, START_MS, TENANT, command, request_identity, stamp_minted_ids};

fn lifetime() -> Option<Lifetime> {
    Some(Lifetime {
        absolute: Some(Absolute::Never(Unit {})),
        idle_ttl_ms: Some(5000),
    })
}

fn claim() -> Call {
    Call::Claim(ClaimRequest {
        identity: Some(request_identity(START_MS, 8)),
        store: "pay".into(),
        owner: "ann".into(),
        id: "order-1".into(),
        action: Some(Action::Begin(ClaimBegin {
            digest: Bytes::from_static(b"digest"),
            lease_ms: 5000,
            note: Bytes::from_static(b"{}"),
        })),
    })
}

/// Calls as clients make them, to change bits of.
pub(crate) fn calls() -> Vec<Call> {
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
        claim(),
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

/// Commands as nodes forward them and make them, to change bits of.
pub(crate) fn commands() -> Vec<Vec<u8>> {
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

fn mutation(mut call: Call) -> Option<(Option<CallIdentity>, Operation)> {
    let identity = call.identity_mut()?.take();
    Some((identity, call.into_operation().ok()?))
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

/// Carries out a batch of calls, as it came over the wire.
///
/// # Panics
/// If one of them is a fault of the replica's own.
pub(crate) fn wire_calls(bytes: &[u8]) {
    let Ok(request) = ExchangeRequest::decode(bytes) else {
        return;
    };
    let mut host = Host::default();
    for call in request.calls.into_iter().filter_map(|call| call.call) {
        read(&mut host, &call);
        let Some((identity, operation)) = mutation(call) else {
            continue;
        };
        let command = identified(identity, operation);
        if check(&command).is_ok() {
            host.apply(&command);
        }
    }
}

/// Applies a command behind others, as a peer forwarded it.
///
/// # Panics
/// If it is a fault of the replica's own.
pub(crate) fn peer_command(bytes: &[u8]) {
    let Ok(made_up) = Command::decode(bytes) else {
        return;
    };
    let mut host = Host::default();
    for bytes in commands() {
        host.apply(&Command::decode(&bytes[..]).expect("it was encoded here"));
    }
    let context = Context {
        group_id: GROUP,
        index: host.index + 1,
    };
    let mut batch = Batch::new(&host.rows);
    match apply(&context, &made_up, &mut batch) {
        Ok(_) => assert!(batch.finish().is_ok()),
        Err(fault) => assert!(matches!(fault, Fault::FeatureLevel { .. }), "{fault}"),
    }
}

/// Lists keys and handles from where a request says.
///
/// # Panics
/// If a list that passes the check fails.
pub(crate) fn lists(keys: &ListKeysRequest, handles: &ListRequest) {
    let mut host = Host::default();
    for (identity, operation) in calls().into_iter().filter_map(mutation) {
        host.apply(&identified(identity, operation));
    }
    let page = query::Page {
        rows_max: 2,
        bytes_max: 1000,
    };
    let scope = query::Scope {
        group_id: GROUP,
        tenant: TENANT,
        stamp_ms: START_MS,
    };
    if check::list_keys(keys).is_ok() {
        assert!(query::list_keys(&host.rows, &scope, keys, page).is_ok());
    }
    if check::list(handles).is_ok() {
        assert!(query::list(&host.rows, &scope, handles, page).is_ok());
    }
}

/// Reads two requests of lists, each behind its length, and lists.
///
/// # Panics
/// As [`lists`].
pub(crate) fn resumed_lists(mut bytes: &[u8]) {
    let keys = ListKeysRequest::decode_length_delimited(&mut bytes);
    let handles = ListRequest::decode_length_delimited(&mut bytes);
    if let (Ok(keys), Ok(handles)) = (keys, handles) {
        lists(&keys, &handles);
    }
}

/// Follows what calls changed, as a request says, in parts of one change.
///
/// # Panics
/// If a watch that passes the check does not come to the newest change, or tells one twice.
pub(crate) fn watched_changes(bytes: &[u8]) {
    let Ok(request) = WatchRequest::decode(bytes) else {
        return;
    };
    if check::watch(&request).is_err() {
        return;
    }
    let mut host = Host::default();
    for (identity, operation) in calls().into_iter().filter_map(mutation) {
        host.apply(&identified(identity, operation));
    }
    let mut window = Window::new(GROUP, 1 << 20);
    window.push(std::mem::take(&mut host.changes), host.index);
    let selection = Selection::of(GROUP, TENANT, &request);
    let part = Part {
        changes_max: 1,
        bytes_max: 0,
    };
    let mut next = Next::After(request.after.unwrap_or(0));
    let mut told = (0, 0);
    loop {
        let found = window.look(next, &selection, part).expect("all is kept");
        for change in found.changes {
            let info = change.info.expect("a record");
            let place = (info.revision, change.ordinal + 1);
            assert!(told < place, "{told:?} was told before {place:?}");
            told = place;
        }
        next = found.next;
        if next == Next::After(found.upto) {
            return;
        }
    }
}

fn identified(identity: Option<CallIdentity>, operation: Operation) -> Command {
    let mut command = command(START_MS, operation);
    command.identity = identity;
    command.fingerprint = Bytes::from_static(&[1; limits::FINGERPRINT_BYTES]);
    stamp_minted_ids(&mut command, 1);
    command
}
