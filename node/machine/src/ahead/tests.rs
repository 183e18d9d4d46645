//! Whatever record a command reads of those that are there is told before.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use helve_proto::{
    command::v1::{
        RaiseFeatureLevel, Reseal, ResealedRecord, Tick, Touch, TouchHandle, TouchKey,
        resealed_record, touch::Record,
    },
    v1::{
        BatchStoreRequest, CallIdentity, DeleteKeyOperation, DeleteKeyRequest, DeleteOperation,
        DeleteRequest, Lifetime, MintRequest, Operation as Part, PutOperation, PutRequest,
        RenewOperation, RenewRequest, StoreItem, StoreOperation, StoreRequest, TakeOperation,
        TakeRequest, TransactRequest, call_identity::Identity, lifetime::Absolute::AfterMs,
        operation,
    },
};

use super::*;
use crate::{
    Context, apply, handle_id,
    layout::{Group, Place},
    level,
    limits::{FINGERPRINT_BYTES, IDENTITY_BYTES, SWEEP_OVERDUE_MS},
    minted_id, next_deadline,
};

const GROUP: u32 = 1;
const START_MS: u64 = 1_800_000_000_000;

/// Rows, and which records among them were read.
#[derive(Default)]
struct Rows {
    rows: BTreeMap<Bytes, Bytes>,
    read: RefCell<BTreeSet<Bytes>>,
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let key = Bytes::copy_from_slice(key);
        let value = self.rows.get(&key).cloned();
        let is_record = matches!(Group(GROUP).parse(&key), Some((_, Place::Record(_))));
        if is_record && value.is_some() {
            self.read.borrow_mut().insert(key);
        }
        Ok(value)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let rows = self.rows.range::<[u8], _>(bounds).take(rows_max);
        Ok(rows.map(|(k, v)| (k.clone(), v.clone())).collect())
    }
}

impl Rows {
    /// Applies commands as one write, and answers what was told before, and what was read.
    fn apply(&mut self, commands: &[Command]) -> (Vec<Bytes>, BTreeSet<Bytes>) {
        let mut batch = Batch::new(&*self);
        let ahead = records_ahead(GROUP, commands, &mut batch).unwrap();
        assert!(self.read.borrow().is_empty(), "to tell took a look");
        for (index, command) in commands.iter().enumerate() {
            let context = Context {
                group_id: GROUP,
                index: index as u64 + 1,
            };
            apply(&context, command, &mut batch).unwrap();
        }
        let writes = batch.finish().unwrap();
        let read = self.read.take();
        for (key, value) in writes {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
        (ahead, read)
    }
}

/// Each under an identity of its own.
fn command(stamp_ms: u64, number: u8, operation: Operation) -> Command {
    let mut request_id = [number; IDENTITY_BYTES];
    request_id[..6].copy_from_slice(&stamp_ms.to_be_bytes()[2..]);
    request_id[6] = 0x70;
    request_id[8] = 0x80;
    Command {
        feature_level: level::needed(&operation),
        tenant: "default".to_owned(),
        proposed_at_ms: stamp_ms,
        identity: Some(CallIdentity {
            identity: Some(Identity::RequestId(Bytes::copy_from_slice(&request_id))),
        }),
        fingerprint: Bytes::from_static(&[1; FINGERPRINT_BYTES]),
        minted_ids: vec![minted_id(&[number; 16])],
        operation: Some(operation),
        ..Command::default()
    }
}

/// Of the handle that a mint of this number makes.
fn id(number: u8) -> String {
    handle_id("", &minted_id(&[number; 16]))
}

fn lifetime(after_ms: u64) -> Option<Lifetime> {
    Some(Lifetime {
        absolute: Some(AfterMs(after_ms)),
        idle_ttl_ms: None,
    })
}

fn mint(after_ms: u64) -> Operation {
    Operation::Mint(MintRequest {
        store: "cart".into(),
        lifetime: lifetime(after_ms),
        ..MintRequest::default()
    })
}

fn store(key: &str, after_ms: u64) -> Operation {
    Operation::Store(StoreRequest {
        key: key.into(),
        lifetime: lifetime(after_ms),
        ..StoreRequest::default()
    })
}

/// Four handles and four keys, which die within a minute, on a cluster of the newest level.
fn rows() -> Rows {
    let mut rows = Rows::default();
    let level = level::supported();
    let raise = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
    // The raise has something counted again, which a Tick does as if it were due.
    let recount = Operation::Tick(Tick { rows_max: 10 });
    let (raise, recount) = (command(START_MS, 99, raise), command(START_MS, 98, recount));
    rows.apply(&[raise, recount]);
    let handles = (0..4).map(|number| command(START_MS, number, mint(60_000)));
    let keys = ["a", "b", "c", "d"].into_iter().zip(4..);
    let keys = keys.map(|(key, number)| command(START_MS, number, store(key, 60_000)));
    let commands: Vec<_> = handles.chain(keys).collect();
    rows.apply(&commands);
    assert_eq!(
        next_deadline(&rows, GROUP).unwrap(),
        Some(START_MS + 60_000)
    );
    rows
}

fn cart() -> String {
    "cart".to_owned()
}

/// Every operation on one handle.
fn of_a_handle(id: String) -> [Operation; 5] {
    let store = cart();
    let touched = TouchHandle {
        store: cart(),
        id: id.clone(),
        ..TouchHandle::default()
    };
    let put = PutRequest {
        store: cart(),
        id: id.clone(),
        ..PutRequest::default()
    };
    let take = TakeRequest {
        store: cart(),
        id: id.clone(),
        ..TakeRequest::default()
    };
    let renew = RenewRequest {
        store: cart(),
        id: id.clone(),
        lifetime: lifetime(1),
        ..RenewRequest::default()
    };
    let delete = DeleteRequest {
        store,
        id,
        ..DeleteRequest::default()
    };
    [
        Operation::Put(put),
        Operation::Take(take),
        Operation::Renew(renew),
        Operation::Delete(delete),
        touch(Record::Handle(touched)),
    ]
}

/// Every operation on one key.
fn of_a_key(key: &str) -> [Operation; 3] {
    let delete = DeleteKeyRequest {
        key: key.into(),
        ..DeleteKeyRequest::default()
    };
    let touched = TouchKey {
        key: key.into(),
        ..TouchKey::default()
    };
    [
        store(key, 1),
        Operation::DeleteKey(delete),
        touch(Record::Key(touched)),
    ]
}

fn touch(record: Record) -> Operation {
    Operation::Touch(Touch {
        record: Some(record),
    })
}

fn batch_of(keys: impl IntoIterator<Item = String>) -> Operation {
    let item = |key| StoreItem {
        key,
        ..StoreItem::default()
    };
    Operation::BatchStore(BatchStoreRequest {
        items: keys.into_iter().map(item).collect(),
        ..BatchStoreRequest::default()
    })
}

/// A handle and a key.
fn reseal() -> Operation {
    let handle = TouchHandle {
        store: cart(),
        id: id(0),
        ..TouchHandle::default()
    };
    let key = TouchKey {
        key: "a".into(),
        ..TouchKey::default()
    };
    let records = [
        resealed_record::Record::Handle(handle),
        resealed_record::Record::Key(key),
    ];
    let record = |record| ResealedRecord {
        record: Some(record),
        ..ResealedRecord::default()
    };
    Operation::Reseal(Reseal {
        records: records.into_iter().map(record).collect(),
    })
}

/// One part of each kind, each on a record of its own.
fn transaction() -> Operation {
    use operation::Operation as Op;

    let part = |part| Part {
        operation: Some(part),
    };
    let put = PutOperation {
        store: cart(),
        id: id(0),
        ..PutOperation::default()
    };
    let take = TakeOperation {
        store: cart(),
        id: id(1),
        ..TakeOperation::default()
    };
    let renew = RenewOperation {
        store: cart(),
        id: id(2),
        ..RenewOperation::default()
    };
    let delete = DeleteOperation {
        store: cart(),
        id: id(3),
        ..DeleteOperation::default()
    };
    let store = StoreOperation {
        key: "a".into(),
        ..StoreOperation::default()
    };
    let delete_key = DeleteKeyOperation {
        key: "b".into(),
        ..DeleteKeyOperation::default()
    };
    let parts = [
        Op::Put(put),
        Op::Take(take),
        Op::Renew(renew),
        Op::Delete(delete),
        Op::Store(store),
        Op::DeleteKey(delete_key),
    ];
    Operation::Transact(TransactRequest {
        operations: parts.into_iter().map(part).collect(),
        ..TransactRequest::default()
    })
}

#[test]
fn every_record_that_a_command_names_is_told_and_read() {
    let ones = of_a_handle(id(0)).into_iter().chain(of_a_key("a"));
    let batch = batch_of(["a", "b", "c"].map(str::to_owned));
    let more = [(batch, 3), (reseal(), 2), (transaction(), 6)];
    for (operation, count) in ones.map(|one| (one, 1)).chain(more) {
        let (ahead, read) = rows().apply(&[command(START_MS, 100, operation.clone())]);
        assert_eq!(read.len(), count, "{operation:?}");
        let ahead: BTreeSet<_> = ahead.into_iter().collect();
        assert_eq!(ahead, read, "{operation:?}");
    }
}

#[test]
fn records_that_are_due_are_told_for_as_many_as_are_removed() {
    let late_ms = START_MS + 60_000;
    for rows_max in [0, 3, 100] {
        let tick = command(late_ms, 100, Operation::Tick(Tick { rows_max }));
        let (ahead, read) = rows().apply(&[tick]);
        assert_eq!(ahead.len(), 8.min(rows_max as usize));
        assert_eq!(ahead.into_iter().collect::<BTreeSet<_>>(), read);
    }
    let early = command(late_ms - 1, 100, Operation::Tick(Tick { rows_max: 100 }));
    assert_eq!(rows().apply(&[early]).0, Vec::<Bytes>::new());
    let [one, other] = [100, 101].map(|number| command(late_ms, number, mint(1)));
    let between = command(late_ms, 102, Operation::Tick(Tick { rows_max: 3 }));
    let (ahead, read) = rows().apply(&[one, between, other]);
    assert_eq!(read.len(), 3);
    assert_eq!(ahead.into_iter().collect::<BTreeSet<_>>(), read);
    for (after_ms, count) in [(SWEEP_OVERDUE_MS - 1, 0), (SWEEP_OVERDUE_MS, 3)] {
        let new = [100, 101, 102].map(|number| command(late_ms + after_ms, number, mint(1)));
        let (ahead, read) = rows().apply(&new);
        assert_eq!(read.len(), count);
        assert_eq!(ahead.into_iter().collect::<BTreeSet<_>>(), read);
    }
}

#[test]
fn no_more_is_told_than_one_is_prepared_for() {
    let keys = (0..128).map(|key| key.to_string());
    let many = [0, 1, 2, 3, 4].map(|n| command(START_MS, n, batch_of(keys.clone())));
    let (ahead, _) = Rows::default().apply(&many);
    assert_eq!(ahead.len(), ROWS_AHEAD_MAX);
    let long = Command {
        tenant: "t".repeat(256),
        ..command(START_MS, 100, store("a", 1))
    };
    assert_eq!(Rows::default().apply(&[long]).0, Vec::<Bytes>::new());
}
