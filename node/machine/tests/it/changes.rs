//! What watchers are told is what happened to the rows.

use std::collections::BTreeMap;

use helve_machine::{
    Selection, limits,
    query::{self, Page},
};
use helve_proto::{
    command::v1::{Command, RaiseFeatureLevel, Tick, command::Operation},
    v1::{
        Change, ChangeKind, DeleteKeyRequest, Lifetime, ListKeysRequest, ListRequest, PutRequest,
        RecordInfo, RenewRequest, StoreRequest, TakeRequest, WatchHandle, WatchKeys, WatchOwner,
        WatchRequest, WatchStore, lifetime::Absolute, watch_request::Target,
    },
};
use proptest::prelude::*;

use crate::{
    host::{GROUP, Host, START_MS, TENANT, command, request_identity},
    properties::commands,
};

const PAGE: Page = Page {
    rows_max: 1024,
    bytes_max: 1 << 20,
};

/// Store (empty: a key), owner, name.
type Name = (String, String, String);

fn all(host: &Host) -> Vec<Change> {
    let changes = host.changes.iter().flat_map(|(index, changes)| {
        let changes = (0..).zip(changes);
        changes.map(|(ordinal, change)| change.told(GROUP, *index, ordinal).unwrap())
    });
    changes.collect()
}

fn name(change: &Change) -> Name {
    let info = change.info.clone().unwrap();
    (change.store.clone(), info.owner, info.name)
}

/// What a watcher holds for alive that heard everything.
fn followed(host: &Host) -> BTreeMap<Name, RecordInfo> {
    let mut alive = BTreeMap::new();
    for change in all(host) {
        let put = change.kind() == ChangeKind::Put;
        let known = alive.insert(name(&change), change.info.clone().unwrap());
        if !put {
            assert!(known.is_some(), "what ends was alive: {change:?}");
            alive.remove(&name(&change));
        }
    }
    alive
}

/// What a list says.
fn listed(host: &mut Host, now_ms: u64) -> BTreeMap<Name, RecordInfo> {
    let mut listed = BTreeMap::new();
    let request = ListRequest {
        store: "cart".into(),
        ..ListRequest::default()
    };
    let handles = host.read(now_ms, |rows, scope| {
        query::list(rows, scope, &request, PAGE)
    });
    for handle in handles.handles {
        let info = handle.info.unwrap();
        let name = ("cart".into(), info.owner.clone(), info.name.clone());
        listed.insert(name, info);
    }
    for owner in ["", "ann"] {
        let request = ListKeysRequest {
            owner: owner.into(),
            ..ListKeysRequest::default()
        };
        let keys = host.read(now_ms, |rows, scope| {
            query::list_keys(rows, scope, &request, PAGE)
        });
        for record in keys.records {
            let info = record.info.unwrap();
            let name = (String::new(), info.owner.clone(), info.name.clone());
            listed.insert(name, info);
        }
    }
    listed
}

/// Without what a renewal changes, which is no change that watchers hear of.
fn unrenewed(infos: BTreeMap<Name, RecordInfo>) -> BTreeMap<Name, RecordInfo> {
    let infos = infos.into_iter().map(|(name, mut info)| {
        info.expires_at_ms = None;
        info.idle_ttl_ms = None;
        info.idle_deadline_ms = None;
        (name, info)
    });
    infos.collect()
}

/// A call under an identity of its own.
fn apply(host: &mut Host, now_ms: u64, operation: Operation) {
    host.apply(&call(host.index, now_ms, operation));
}

fn call(number: u64, now_ms: u64, operation: Operation) -> Command {
    Command {
        identity: Some(request_identity(now_ms, number)),
        fingerprint: vec![1; limits::FINGERPRINT_BYTES].into(),
        ..command(now_ms, operation)
    }
}

fn told(host: &mut Host, now_ms: u64, operation: Operation) -> Vec<(ChangeKind, u64, u32)> {
    let before = all(host).len();
    apply(host, now_ms, operation);
    let changes = all(host).split_off(before);
    let changes = changes.iter().map(|change| {
        (
            change.kind(),
            change.info.as_ref().unwrap().revision,
            change.ordinal,
        )
    });
    changes.collect()
}

fn put(id: &str, ttl_ms: u64) -> Operation {
    Operation::Put(PutRequest {
        store: "cart".into(),
        owner: "ann".into(),
        id: id.into(),
        value: "v".into(),
        lifetime: Some(Lifetime {
            absolute: Some(Absolute::AfterMs(ttl_ms)),
            idle_ttl_ms: None,
        }),
        ..PutRequest::default()
    })
}

fn take(id: &str) -> Operation {
    Operation::Take(TakeRequest {
        store: "cart".into(),
        owner: "ann".into(),
        id: id.into(),
        ..TakeRequest::default()
    })
}

fn store(key: &str) -> Operation {
    Operation::Store(StoreRequest {
        owner: "ann".into(),
        key: key.into(),
        ..StoreRequest::default()
    })
}

#[test]
fn each_end_of_a_record_is_told_as_what_it_was() {
    let mut host = Host::default();
    let now_ms = START_MS;
    assert_eq!(
        told(&mut host, now_ms, put("1", 50)),
        [(ChangeKind::Put, 1, 0)]
    );
    assert_eq!(
        told(&mut host, now_ms, put("1", 50)),
        [(ChangeKind::Put, 2, 0)]
    );
    let renew = Operation::Renew(RenewRequest {
        store: "cart".into(),
        owner: "ann".into(),
        id: "1".into(),
        lifetime: Some(Lifetime {
            absolute: Some(Absolute::AfterMs(60)),
            idle_ttl_ms: None,
        }),
        ..RenewRequest::default()
    });
    assert_eq!(told(&mut host, now_ms, renew), []);
    assert_eq!(
        told(&mut host, now_ms, take("1")),
        [(ChangeKind::Taken, 4, 0)]
    );
    assert_eq!(told(&mut host, now_ms, take("1")), []);
    assert_eq!(
        told(&mut host, now_ms, store("k")),
        [(ChangeKind::Put, 6, 0)]
    );
    let delete = Operation::DeleteKey(DeleteKeyRequest {
        owner: "ann".into(),
        key: "k".into(),
        ..DeleteKeyRequest::default()
    });
    assert_eq!(
        told(&mut host, now_ms, delete),
        [(ChangeKind::Deleted, 7, 0)]
    );
    told(&mut host, now_ms, put("2", 50));
    told(&mut host, now_ms, put("3", 50));
    let tick = Operation::Tick(Tick { rows_max: 10 });
    let expired = [(ChangeKind::Expired, 10, 0), (ChangeKind::Expired, 10, 1)];
    assert_eq!(told(&mut host, now_ms + 50, tick), expired);
}

#[test]
fn key_stored_over_an_expired_one_ends_that_first() {
    let mut host = Host::default();
    let short = Operation::Store(StoreRequest {
        owner: "ann".into(),
        key: "k".into(),
        lifetime: Some(Lifetime {
            absolute: Some(Absolute::AfterMs(50)),
            idle_ttl_ms: None,
        }),
        ..StoreRequest::default()
    });
    let raise = RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    };
    apply(&mut host, START_MS, Operation::RaiseFeatureLevel(raise));
    apply(&mut host, START_MS, short);
    let changes = told(&mut host, START_MS + 50, store("k"));
    assert_eq!(
        changes,
        [(ChangeKind::Expired, 3, 0), (ChangeKind::Put, 3, 1)]
    );
}

fn watching(target: Target) -> Selection {
    let request = WatchRequest {
        target: Some(target),
        ..WatchRequest::default()
    };
    Selection::of(GROUP, TENANT, &request)
}

#[test]
fn selection_has_what_its_request_names_and_nothing_else() {
    let mut host = Host::default();
    let of = |owner: &str, id: &str, in_store: &str| {
        Operation::Put(PutRequest {
            store: in_store.into(),
            owner: owner.into(),
            id: id.into(),
            ..PutRequest::default()
        })
    };
    let key = |owner: &str, key: &str| {
        Operation::Store(StoreRequest {
            owner: owner.into(),
            key: key.into(),
            ..StoreRequest::default()
        })
    };
    for operation in [
        of("ann", "1", "cart"),
        of("ann", "12", "cart"),
        of("an", "n1", "cart"),
        of("ann", "1", "cartx"),
        key("ann", "app/1"),
        key("ann", "b"),
        key("an", "napp/"),
    ] {
        apply(&mut host, START_MS, operation);
    }
    let mut other = Host::default();
    let mut foreign = call(0, START_MS, of("ann", "1", "cart"));
    foreign.tenant = "other".into();
    other.apply(&foreign);
    let foreign = &other.changes[0].1[0];
    let has = |target: Target| -> Vec<usize> {
        let selection = watching(target);
        assert!(!selection.has(foreign), "another tenant's");
        let changes = host.changes.iter().flat_map(|(_, changes)| changes);
        let had = changes
            .enumerate()
            .filter(|(_, change)| selection.has(change));
        had.map(|(at, _)| at).collect()
    };
    let in_store = |owner: Option<&str>| {
        Target::Store(WatchStore {
            store: "cart".into(),
            owner: owner.map(str::to_owned),
        })
    };
    assert_eq!(has(in_store(None)), [0, 1, 2]);
    assert_eq!(has(in_store(Some("ann"))), [0, 1]);
    let handle = WatchHandle {
        store: "cart".into(),
        owner: "ann".into(),
        id: "1".into(),
    };
    assert_eq!(has(Target::Handle(handle)), [0]);
    let keys = |prefix: &str| {
        Target::Keys(WatchKeys {
            owner: "ann".into(),
            prefix: prefix.into(),
        })
    };
    assert_eq!(has(keys("app/")), [4]);
    assert_eq!(has(keys("")), [4, 5]);
    let owner = WatchOwner {
        owner: "ann".into(),
    };
    assert_eq!(has(Target::Owner(owner)), [0, 1, 3, 4, 5]);
}

#[test]
fn selection_by_an_owner_too_long_for_a_record_is_empty() {
    let mut host = Host::default();
    apply(&mut host, START_MS, store("k"));
    let long = WatchOwner {
        owner: "x".repeat(70_000),
    };
    assert!(!watching(Target::Owner(long)).has(&host.changes[0].1[0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn watcher_of_all_changes_knows_what_a_list_says(commands in commands()) {
        let mut host = Host::default();
        let mut now_ms = START_MS;
        for command in &commands {
            host.apply(command);
            now_ms = now_ms.max(command.proposed_at_ms);
        }
        // What has expired is told when it is removed.
        while host.tick(now_ms, 100).1 {}
        let followed = unrenewed(followed(&host));
        prop_assert_eq!(followed, unrenewed(listed(&mut host, now_ms)));
    }

    #[test]
    fn pairs_of_revision_and_ordinal_only_grow(commands in commands()) {
        let mut host = Host::default();
        let told = |host: &mut Host, command: &Command| {
            host.apply(command);
        };
        commands.iter().for_each(|command| told(&mut host, command));
        let places: Vec<_> = all(&host).iter().map(|change| (change.info.as_ref().unwrap().revision, change.ordinal)).collect();
        prop_assert!(places.is_sorted_by(|a, b| a < b));
    }
}
