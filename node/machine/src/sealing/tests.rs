//! Tests of sealing, without a seal: the machine never looks inside.

use std::{collections::BTreeMap, ops::Bound, sync::LazyLock};

use bytes::Bytes;
use helve_proto::{
    command::v1::{EndSealing, Outcome, RaiseFeatureLevel, TouchHandle, outcome::Outcome as Kind},
    v1::{
        self, GetReply, GetRequest, HandleStatus, Lifetime, MintRequest, PutRequest,
        lifetime::Absolute,
    },
};

use super::*;
use crate::{
    Batch, Context, apply, audit, level,
    limits::SEAL_BYTES,
    query::{self, Read, Scope},
};

const GROUP: u32 = 1;
const OLD: &[u8] = b"old key.";
const NEW: &[u8] = b"new key.";

#[derive(Default)]
struct Host {
    rows: BTreeMap<Bytes, Bytes>,
    index: u64,
}

impl View for Host {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self.rows.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let rows = self
            .rows
            .range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        Ok(rows
            .take(rows_max)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect())
    }
}

impl Host {
    fn sealed_cluster() -> Self {
        let mut host = Self::default();
        host.apply(&command(
            Operation::RaiseFeatureLevel(RaiseFeatureLevel {
                level: level::SEALING,
            }),
            b"",
        ));
        host.set(OLD, 0);
        host
    }

    fn apply(&mut self, command: &Command) -> Kind {
        self.index += 1;
        let context = Context {
            group_id: GROUP,
            index: self.index,
        };
        let mut batch = Batch::new(&*self);
        let outcome: Outcome = apply(&context, command, &mut batch).unwrap();
        for (key, value) in batch.finish().unwrap() {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
        audit(self, GROUP).unwrap();
        outcome.outcome.unwrap()
    }

    fn set(&mut self, key_id: &'static [u8], if_index: u64) -> Kind {
        let secret = if key_id.is_empty() {
            Bytes::new()
        } else {
            Bytes::from_static(b"secret")
        };
        let request = SetSealing {
            key_id: key_id.into(),
            secret,
            if_index,
        };
        self.apply(&command(Operation::SetSealing(request), b""))
    }

    fn row(&self) -> SealingRow {
        sealing(self, GROUP).unwrap().unwrap()
    }

    fn read(&self, id: &str) -> GetReply {
        let scope = Scope {
            group_id: GROUP,
            tenant: "default",
            stamp_ms: 0,
        };
        let request = GetRequest {
            store: "carts".into(),
            id: id.into(),
            ..GetRequest::default()
        };
        match query::get(self, &scope, &request).unwrap() {
            Read::Answer(reply) => reply,
            other => panic!("{other:?}"),
        }
    }
}

fn command(operation: Operation, sealed_under: &'static [u8]) -> Command {
    Command {
        feature_level: level::needed_sealed(&operation, sealed_under),
        tenant: "default".into(),
        principal: "anonymous".into(),
        proposed_at_ms: 1_000,
        sealed_under: sealed_under.into(),
        operation: Some(operation),
        ..Command::default()
    }
}

fn put(host: &mut Host, sealed_under: &'static [u8], value: &'static [u8]) -> Kind {
    let request = PutRequest {
        store: "carts".into(),
        id: "a".into(),
        value: value.into(),
        lifetime: Some(Lifetime {
            absolute: Some(Absolute::AfterMs(60_000)),
            idle_ttl_ms: None,
        }),
        ..PutRequest::default()
    };
    let mut command = command(Operation::Put(request), sealed_under);
    command.identity = Some(v1::CallIdentity {
        identity: Some(v1::call_identity::Identity::RequestId(request_id(1))),
    });
    command.fingerprint = Bytes::from_static(&[7; 16]);
    host.apply(&command)
}

fn request_id(number: u8) -> Bytes {
    let mut id = [0; 16];
    id[4..6].copy_from_slice(&1_000_u16.to_be_bytes());
    (id[6], id[8], id[15]) = (0x70, 0x80, number);
    Bytes::copy_from_slice(&id)
}

fn refusal(kind: &Kind) -> Option<Refusal> {
    match kind {
        Kind::Refused(refused) => Some(refused.refusal()),
        _ => None,
    }
}

fn resealed(host: &mut Host, revision: u64, value: &'static [u8]) -> Kind {
    let record = ResealedRecord {
        record: Some(resealed_record::Record::Handle(TouchHandle {
            store: "carts".into(),
            owner: String::new(),
            id: "a".into(),
        })),
        revision,
        value: value.into(),
    };
    host.apply(&command(
        Operation::Reseal(Reseal {
            records: vec![record],
        }),
        NEW,
    ))
}

#[test]
fn a_value_that_is_sealed_otherwise_is_refused_and_the_same_call_may_come_again() {
    let mut host = Host::sealed_cluster();
    for wrong in [&b""[..], NEW] {
        assert_eq!(
            refusal(&put(&mut host, wrong, &[0; 50])),
            Some(Refusal::Sealing)
        );
    }
    assert_eq!(host.read("a").status(), HandleStatus::Unknown);
    let done = put(&mut host, OLD, &[0; 50]);
    assert!(matches!(done, Kind::Put(_)), "{done:?}");
    // The outcome is kept: executed before, whatever the key is by now.
    host.set(NEW, host.row().index);
    assert_eq!(put(&mut host, NEW, &[1; 50]), done);
    assert_eq!(host.read("a").value, [0; 50][..]);
}

#[test]
fn what_is_said_of_a_sealed_value_is_its_plain_size_and_its_key() {
    let mut host = Host::sealed_cluster();
    put(&mut host, OLD, &[0; SEAL_BYTES + 3]);
    let info = host.read("a").info.unwrap();
    assert_eq!((info.value_bytes, &info.sealed_under[..]), (3, OLD));
}

#[test]
fn resealing_changes_bytes_alone_of_what_has_not_changed() {
    let mut host = Host::sealed_cluster();
    put(&mut host, OLD, &[0; 50]);
    let before = host.read("a").info.unwrap();
    host.set(NEW, host.row().index);
    assert_eq!(
        resealed(&mut host, before.revision + 1, &[2; 50]),
        Kind::Reseal(Resealed { replaced: 0 })
    );
    assert_eq!(host.read("a").value, [0; 50][..]);
    assert_eq!(
        resealed(&mut host, before.revision, &[1; 50]),
        Kind::Reseal(Resealed { replaced: 1 })
    );
    let after = host.read("a");
    assert_eq!(after.value, [1; 50][..]);
    let info = after.info.unwrap();
    assert_eq!(info.sealed_under, NEW);
    assert_eq!(
        v1::RecordInfo {
            sealed_under: before.sealed_under.clone(),
            ..info
        },
        before
    );
}

#[test]
fn a_walk_finds_what_is_left_of_every_kind_and_ends_when_it_is_said_to() {
    let mut host = Host::sealed_cluster();
    put(&mut host, OLD, &[0; 50]);
    host.set(NEW, host.row().index);
    let found = walk(&host, GROUP, NEW, b"", (1_000, 1_000)).unwrap();
    assert!(found.rest.is_none());
    let [left] = &found.found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (&left.sealed_under[..], left.tenant.as_str()),
        (OLD, "default")
    );
    // Row by row it is the same walk.
    let (mut from, mut rows, mut again) = (Some(Bytes::new()), 0, Vec::new());
    while let Some(key) = from {
        let stretch = walk(&host, GROUP, NEW, &key, (1, 1_000)).unwrap();
        rows += stretch.rows;
        again.extend(stretch.found);
        from = stretch.rest;
    }
    assert_eq!((rows, again.len()), (found.rows, 1));
    let (mut records, mut kept) = (Tally::new(), Tally::new());
    tally(&host, GROUP, b"", 1_000, (&mut records, &mut kept)).unwrap();
    assert_eq!((records, kept.len()), (Tally::from([(OLD.into(), 1)]), 0));
    resealed(&mut host, left.revision, &[1; 50]);
    assert!(
        walk(&host, GROUP, NEW, b"", (1_000, 1_000))
            .unwrap()
            .found
            .is_empty()
    );
    let stale = host.apply(&command(
        Operation::EndSealing(EndSealing { index: 1 }),
        b"",
    ));
    assert_eq!(refusal(&stale), Some(Refusal::Conflict));
    let index = host.row().index;
    host.apply(&command(Operation::EndSealing(EndSealing { index }), b""));
    assert!(host.row().done);
}

#[test]
fn a_change_of_the_key_is_made_to_what_it_was_decided_on_and_the_secret_outlives_sealing() {
    let mut host = Host::sealed_cluster();
    let before = host.row();
    assert_eq!(
        refusal(&host.set(NEW, before.index + 1)),
        Some(Refusal::Conflict)
    );
    assert_eq!(host.row(), before);
    host.set(b"", before.index);
    let plain = host.row();
    assert!(plain.key_id.is_empty() && !plain.done);
    assert_eq!(
        (&plain.secret[..], &plain.secret_key_id[..]),
        (&b"secret"[..], OLD)
    );
}

#[test]
fn keys_that_sealed_before_are_noted_once_and_the_newest_of_them() {
    static KEYS: LazyLock<Vec<[u8; 8]>> =
        LazyLock::new(|| (0..=FORMER_KEYS_MAX).map(usize::to_be_bytes).collect());
    let mut host = Host::sealed_cluster();
    host.set(NEW, host.row().index);
    assert!(host.row().former_key_ids.is_empty(), "older levels do not");
    host.apply(&command(
        Operation::RaiseFeatureLevel(RaiseFeatureLevel {
            level: level::FORMER_KEYS,
        }),
        b"",
    ));
    host.set(OLD, host.row().index);
    assert_eq!(host.row().former_key_ids, [NEW]);
    host.set(NEW, host.row().index);
    assert_eq!(
        host.row().former_key_ids,
        [OLD],
        "the key that seals is none"
    );
    host.set(b"", host.row().index);
    assert_eq!(host.row().former_key_ids, [OLD, NEW]);
    host.set(OLD, host.row().index);
    assert_eq!(host.row().former_key_ids, [NEW]);
    for key in KEYS.iter() {
        host.set(key, host.row().index);
    }
    let former = host.row().former_key_ids;
    let newest: Vec<&[u8]> = KEYS[..FORMER_KEYS_MAX].iter().map(|id| &id[..]).collect();
    assert_eq!(former, newest, "the oldest two went");
}

#[test]
fn sealing_is_refused_below_its_level() {
    let mut host = Host::default();
    assert_eq!(refusal(&host.set(OLD, 0)), Some(Refusal::FeatureLevel));
    let request = MintRequest::default();
    let kind = host.apply(&command(Operation::Mint(request), OLD));
    assert_eq!(refusal(&kind), Some(Refusal::FeatureLevel));
}

#[test]
fn from_the_end_of_the_first_walk_on_every_record_is_sealed_until_sealing_is_ended() {
    let mut host = Host::sealed_cluster();
    let raise = |level| {
        let raise = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
        command(raise, b"")
    };
    let end = |host: &mut Host| {
        let index = host.row().index;
        host.apply(&command(Operation::EndSealing(EndSealing { index }), b""));
    };
    end(&mut host);
    assert_eq!(host.row().complete_index, 0, "older levels do not say it");
    host.apply(&raise(level::MENDED));
    let complete = host.index;
    assert_eq!(host.row().complete_index, complete);
    // A rotation changes nothing in it.
    host.set(NEW, host.row().index);
    assert_eq!(host.row().complete_index, complete);
    end(&mut host);
    assert_eq!(host.row().complete_index, complete);
    host.set(b"", host.row().index);
    assert_eq!(host.row().complete_index, 0);
    end(&mut host);
    host.set(NEW, host.row().index);
    assert_eq!(host.row().complete_index, 0);
    end(&mut host);
    assert_eq!(host.row().complete_index, host.index);
}
