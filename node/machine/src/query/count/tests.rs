//! Tests of counts while many rows have expired and are not removed yet.

use std::{cell::Cell, collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use helve_proto::{
    command::v1::{Command, RaiseFeatureLevel, Tick, command::Operation},
    v1::{CallIdentity, Lifetime, PutRequest, call_identity::Identity, lifetime::Absolute},
};

use super::*;
use crate::{Batch, Context, apply, limits};

const GROUP: u32 = 1;
const START_MS: u64 = 1_800_000_000_000;

#[derive(Default)]
struct Rows {
    rows: BTreeMap<Bytes, Bytes>,
    read: Cell<usize>,
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self.rows.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let rows = self.rows.range::<[u8], _>(bounds).take(rows_max);
        let rows: Vec<_> = rows.map(|(k, v)| (k.clone(), v.clone())).collect();
        self.read.set(self.read.get() + rows.len());
        Ok(rows)
    }
}

impl Rows {
    fn apply(&mut self, index: u64, command: &Command) {
        let mut batch = Batch::new(&*self);
        let context = Context {
            group_id: GROUP,
            index,
        };
        apply(&context, command, &mut batch).unwrap();
        for (key, value) in batch.finish().unwrap() {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }

    /// A storm: of each tenant's, store's and owner's handles, the first half expires, each at another millisecond.
    fn stormy(handles: u64) -> Self {
        let mut rows = Self::default();
        let mut index = 0;
        let mut apply = |operation, tenant: &str| {
            index += 1;
            let id = [
                &[0x01, 0xa3, 0x18, 0x4b, 0x7c, 0x00, 0x70, 0, 0x80][..],
                &[0; 7],
            ]
            .concat();
            let mut id: [u8; 16] = id.try_into().unwrap();
            id[..6].copy_from_slice(&START_MS.to_be_bytes()[2..]);
            id[8..].copy_from_slice(&(index | 1_u64 << 63).to_be_bytes());
            let command = Command {
                feature_level: crate::level::needed(&operation),
                tenant: tenant.to_owned(),
                proposed_at_ms: START_MS,
                identity: Some(CallIdentity {
                    identity: Some(Identity::RequestId(Bytes::copy_from_slice(&id))),
                }),
                operation: Some(operation),
                ..Command::default()
            };
            rows.apply(index, &command);
        };
        let level = limits::FEATURE_LEVEL;
        apply(
            Operation::RaiseFeatureLevel(RaiseFeatureLevel { level }),
            "a",
        );
        for number in 0..handles {
            for (tenant, store, owner) in [
                ("a", "s", ""),
                ("a", "s", "o"),
                ("a", "t", ""),
                ("b", "s", ""),
            ] {
                let after = Absolute::AfterMs(1 + number);
                let put = PutRequest {
                    store: store.to_owned(),
                    owner: owner.to_owned(),
                    id: number.to_string(),
                    lifetime: Some(Lifetime {
                        absolute: (number < handles / 2).then_some(after),
                        idle_ttl_ms: None,
                    }),
                    ..PutRequest::default()
                };
                apply(Operation::Put(put), tenant);
            }
        }
        let mut tick = Command {
            proposed_at_ms: START_MS + handles,
            operation: Some(Operation::Tick(Tick { rows_max: 0 })),
            ..Command::default()
        };
        tick.feature_level = 1;
        rows.apply(100_000, &tick);
        rows.read.set(0);
        rows
    }

    fn count(&self, store: &str, owner: Option<&str>, extent: Extent) -> Option<u64> {
        let scope = Scope {
            group_id: GROUP,
            tenant: "a",
            stamp_ms: START_MS,
        };
        let request = CountRequest {
            store: store.to_owned(),
            owner: owner.map(str::to_owned),
        };
        match count_within(self, &scope, &request, extent).unwrap() {
            Read::Answer(reply) => Some(reply.live),
            Read::Busy => None,
            other => panic!("a count came to {other:?}"),
        }
    }
}

#[test]
fn a_count_is_exact_or_says_that_it_is_not_known_and_looks_at_few_rows() {
    const HANDLES: u64 = 40;
    let rows = Rows::stormy(HANDLES);
    for (store, owner, live) in [
        ("s", None, HANDLES),
        ("s", Some("o"), HANDLES / 2),
        ("t", None, HANDLES / 2),
        ("t", Some("o"), 0),
        ("u", None, 0),
    ] {
        let mut unknown = 0;
        for index_rows in [0, 1, 7, 60, 200, 10_000] {
            for records in [0, 20, 1000] {
                rows.read.set(0);
                let extent = Extent {
                    index_rows,
                    records,
                };
                let counted = rows.count(store, owner, extent);
                assert!(counted.is_none_or(|counted| counted == live), "{counted:?}");
                let looks = index_rows + usize::try_from(records).unwrap() + SCAN_ROWS;
                assert!(rows.read.get() <= looks, "{} of {looks}", rows.read.get());
                unknown += u32::from(counted.is_none());
            }
        }
        assert_eq!(rows.count(store, owner, EXTENT), Some(live));
        assert!((unknown > 0) == (live > 0), "{store} {owner:?}");
    }
}

#[test]
fn a_count_of_rows_that_were_miscounted_looks_at_the_records() {
    let mut rows = Rows::stormy(10);
    let space = crate::layout::Space {
        group_id: GROUP,
        tenant: "a",
    };
    let key = space.usage().store(&path_prefix("t", None).unwrap());
    let row = helve_proto::command::v1::UsageRow { rows: 1, bytes: 1 };
    rows.rows.insert(key, crate::row::encode(&row));
    assert_eq!(rows.count("t", None, EXTENT), Some(5));
}
