//! Pages of lists: each reads about as many rows as it lists, and together they are the whole list.

use std::cell::Cell;

use bytes::Bytes;
use helve_machine::{
    Fault, View, check,
    query::{self, Page, Read, Scope},
};
use helve_proto::{
    command::v1::command::Operation,
    v1::{Lifetime, ListKeysRequest, ListRequest, PutRequest, StoreRequest, lifetime::Absolute},
};
use proptest::{collection::btree_set, prelude::*};

use crate::host::{GROUP, Host, Rows, START_MS, TENANT, command, request_identity};

/// Keys among which a page is asked for.
const MANY: u64 = 20_000;
const HOUR_MS: u64 = 3_600_000;
const NODE_PAGE: Page = Page {
    rows_max: 1_000,
    bytes_max: 1 << 20,
};
const OWNERS: [&str; 2] = ["ann", "bob"];

/// Rows that count how many of them are read.
struct Counted<'a> {
    rows: &'a Rows,
    read: Cell<usize>,
}

impl View for Counted<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        self.read.set(self.read.get() + 1);
        self.rows.get(key)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let found = self.rows.range(from, to, rows_max)?;
        self.read.set(self.read.get() + found.len());
        Ok(found)
    }
}

fn lifetime(lives_ms: Option<u64>) -> Option<Lifetime> {
    lives_ms.map(|ms| Lifetime {
        absolute: Some(Absolute::AfterMs(ms)),
        ..Lifetime::default()
    })
}

fn store(host: &mut Host, owner: &str, key: &str, lives_ms: Option<u64>) {
    let request = StoreRequest {
        owner: owner.to_owned(),
        key: key.to_owned(),
        value: "1".into(),
        lifetime: lifetime(lives_ms),
        ..StoreRequest::default()
    };
    write(host, Operation::Store(request));
}

fn put(host: &mut Host, owner: &str, id: &str, lives_ms: Option<u64>) {
    let request = PutRequest {
        store: "cart".to_owned(),
        owner: owner.to_owned(),
        id: id.to_owned(),
        value: "1".into(),
        lifetime: lifetime(lives_ms),
        ..PutRequest::default()
    };
    write(host, Operation::Put(request));
}

fn write(host: &mut Host, operation: Operation) {
    let mut command = command(START_MS, operation);
    command.identity = Some(request_identity(START_MS, host.index));
    command.fingerprint = Bytes::from_static(&[1; helve_machine::limits::FINGERPRINT_BYTES]);
    host.apply(&command);
}

/// Reads all parts as a node does, without letting time pass.
fn parts<R, P>(
    mut request: R,
    read: impl Fn(&R) -> Read<P>,
    rest: impl Fn(R, &P) -> Option<R>,
) -> Vec<P> {
    let mut parts = Vec::new();
    loop {
        let Read::Answer(part) = read(&request) else {
            panic!("something is due");
        };
        let next = rest(request, &part);
        parts.push(part);
        match next {
            Some(next) => request = next,
            None => return parts,
        }
    }
}

fn keys(view: &impl View, stamp_ms: u64, page: Page, request: ListKeysRequest) -> Vec<String> {
    check::list_keys(&request).unwrap();
    let scope = Scope {
        group_id: GROUP,
        tenant: TENANT,
        stamp_ms,
    };
    let read = |request: &ListKeysRequest| query::list_keys(view, &scope, request, page).unwrap();
    let parts = parts(request, read, query::keys_rest);
    let records = parts.into_iter().flat_map(|part| part.records);
    records.map(|record| record.info.unwrap().name).collect()
}

fn handles(view: &impl View, stamp_ms: u64, page: Page, request: ListRequest) -> Vec<String> {
    check::list(&request).unwrap();
    let scope = Scope {
        group_id: GROUP,
        tenant: TENANT,
        stamp_ms,
    };
    let read = |request: &ListRequest| query::list(view, &scope, request, page).unwrap();
    let parts = parts(request, read, query::rest);
    let listed = parts.into_iter().flat_map(|part| part.handles);
    listed.map(|handle| handle.info.unwrap().name).collect()
}

fn name(number: u64) -> String {
    format!("name-{number:08}")
}

#[test]
fn page_of_ten_among_many_reads_about_ten_rows() {
    let mut host = Host::default();
    for number in 0..MANY {
        store(&mut host, "ann", &name(number), None);
        put(&mut host, "ann", &name(number), None);
    }
    let expected = |first: u64| (first..first + 10).map(name).collect::<Vec<_>>();
    for (after, first) in [("", 0), (name(14_999).as_str(), 15_000)] {
        let view = Counted {
            rows: &host.rows,
            read: Cell::default(),
        };
        let request = ListKeysRequest {
            owner: "ann".into(),
            prefix: "name-".into(),
            after: after.to_owned(),
            keys_max: 10,
            ..ListKeysRequest::default()
        };
        assert_eq!(keys(&view, START_MS, NODE_PAGE, request), expected(first));
        let read = view.read.replace(0);
        assert!(read <= 15, "{read} rows for ten keys");
        let request = ListRequest {
            store: "cart".into(),
            owner: Some("ann".into()),
            after: after.to_owned(),
            handles_max: 10,
            ..ListRequest::default()
        };
        assert_eq!(
            handles(&view, START_MS, NODE_PAGE, request),
            expected(first)
        );
        let read = view.read.get();
        assert!(read <= 15, "{read} rows for ten handles");
    }
}

/// Expired rows that are not removed yet stand between: they are read, each once, and in few parts.
#[test]
fn page_behind_rows_that_have_expired_comes_in_few_parts() {
    let mut host = Host::default();
    for number in 0..5_000 {
        store(&mut host, "ann", &name(number), Some(HOUR_MS));
    }
    store(&mut host, "ann", "z", None);
    // The clock moves past the deadlines, and removes nothing beyond what one command sweeps.
    let past_ms = START_MS + HOUR_MS + 1;
    host.tick(past_ms, 1);
    let scope = Scope {
        group_id: GROUP,
        tenant: TENANT,
        stamp_ms: past_ms,
    };
    let view = Counted {
        rows: &host.rows,
        read: Cell::default(),
    };
    let read =
        |request: &ListKeysRequest| query::list_keys(&view, &scope, request, NODE_PAGE).unwrap();
    let request = ListKeysRequest {
        owner: "ann".into(),
        keys_max: 10,
        ..ListKeysRequest::default()
    };
    let parts = parts(request, read, query::keys_rest);
    assert!(parts.len() <= 6, "{} parts", parts.len());
    let names: Vec<_> = parts.iter().flat_map(|part| &part.records).collect();
    assert_eq!(names.len(), 1);
    assert!(view.read.get() < 5_500, "{} rows", view.read.get());
}

proptest! {
    /// Whatever the page's size and wherever it begins, it is that stretch of the list of all, and none of another owner.
    #[test]
    fn pages_are_stretches_of_the_whole_list(
        names in btree_set("[a-c]{1,3}", 0..30),
        expired in btree_set("[a-c]{1,3}", 0..10),
        prefix in "[a-c]{0,2}",
        after in "[a-d]{0,3}",
        limit in 0_u64..8,
        rows_max in 1_usize..6,
    ) {
        let mut host = Host::default();
        for owner in OWNERS {
            for name in &names {
                let lives_ms = expired.contains(name).then_some(HOUR_MS);
                store(&mut host, owner, name, lives_ms);
                put(&mut host, owner, name, lives_ms);
            }
        }
        let past_ms = START_MS + HOUR_MS + 1;
        host.tick(past_ms, 1);
        let stretch = |prefix: &str| -> Vec<String> {
            let behind = names
                .iter()
                .filter(|name| !expired.contains(*name) && name.starts_with(prefix))
                .filter(|name| name.as_str() > after.as_str());
            let max = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap() };
            behind.take(max).cloned().collect()
        };
        let page = Page { rows_max, bytes_max: 200 };
        for owner in OWNERS {
            let request = ListKeysRequest {
                owner: owner.into(),
                prefix: prefix.clone(),
                after: after.clone(),
                keys_max: limit,
                ..ListKeysRequest::default()
            };
            prop_assert_eq!(keys(&host.rows, past_ms, page, request), stretch(&prefix));
            let request = ListRequest {
                store: "cart".into(),
                owner: Some(owner.into()),
                after: after.clone(),
                handles_max: limit,
                ..ListRequest::default()
            };
            prop_assert_eq!(handles(&host.rows, past_ms, page, request), stretch(""));
        }
    }
}

/// A key that is the prefix itself leaves nothing behind it for a resume token.
#[test]
fn list_goes_on_behind_a_key_that_is_its_prefix() {
    let mut host = Host::default();
    for key in ["c", "ca", "cb", "d"] {
        store(&mut host, "ann", key, None);
    }
    let page = Page {
        rows_max: 1,
        bytes_max: 1,
    };
    for (keys_max, expected) in [(0, 3), (1, 1), (2, 2)] {
        let request = ListKeysRequest {
            owner: "ann".into(),
            prefix: "c".into(),
            keys_max,
            ..ListKeysRequest::default()
        };
        let listed = keys(&host.rows, START_MS, page, request);
        assert_eq!(listed, ["c", "ca", "cb"][..expected]);
    }
}

#[test]
fn after_that_no_list_can_begin_behind_is_refused() {
    let of_all = ListRequest {
        store: "cart".into(),
        after: "a".into(),
        ..ListRequest::default()
    };
    assert!(
        check::list(&of_all).is_err(),
        "ids of all owners are in no order"
    );
    let long = ListRequest {
        owner: Some("ann".into()),
        after: "a".repeat(helve_machine::limits::ID_BYTES_MAX + 1),
        ..of_all
    };
    assert!(check::list(&long).is_err());
    let long = ListKeysRequest {
        after: "a".repeat(helve_machine::limits::KEY_BYTES_MAX + 1),
        ..ListKeysRequest::default()
    };
    assert!(check::list_keys(&long).is_err());
}

#[test]
fn token_that_no_part_of_the_list_ends_with_is_refused() {
    let keys: [(&str, &[u8], bool); 9] = [
        ("c", b"", true),
        ("c", b"a", true),
        ("", b"ca", true),
        ("c", &[0], true),
        ("", &[0], false),
        ("c", &[0, 0, 0], false),
        ("c", &[0xff], false),
        ("c", b"a\0", false),
        ("c", &[b'a'; helve_machine::limits::KEY_BYTES_MAX], false),
    ];
    for (prefix, token, expected) in keys {
        let request = ListKeysRequest {
            owner: "ann".into(),
            prefix: prefix.into(),
            resume_token: token.to_vec().into(),
            ..ListKeysRequest::default()
        };
        let checked = check::list_keys(&request);
        assert_eq!(checked.is_ok(), expected, "{prefix:?} {token:?}");
    }
    let handles: [(Option<&str>, &[u8], bool); 11] = [
        (Some("ann"), b"", true),
        (Some("ann"), b"id-1", true),
        (Some("ann"), &[0, 0, 0], false),
        (None, b"", true),
        (None, b"\0\x03annid-1", true),
        (None, b"\0\0id-1", true),
        (None, b"\0\x03ann", false),
        (None, b"\0\x09ann", false),
        (None, b"\0\x01\xffid", false),
        (None, &[0, 0, 0], false),
        (None, &[0], false),
    ];
    for (owner, token, expected) in handles {
        let request = ListRequest {
            store: "cart".into(),
            owner: owner.map(str::to_owned),
            resume_token: token.to_vec().into(),
            ..ListRequest::default()
        };
        let checked = check::list(&request);
        assert_eq!(checked.is_ok(), expected, "{owner:?} {token:?}");
    }
}
