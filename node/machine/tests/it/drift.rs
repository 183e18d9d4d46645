//! Derived rows that were changed behind the machine's back: they are put right where that shows, and no replica stops.

use bytes::Bytes;
use helve_machine::limits::{self, Bounds};
use helve_proto::{
    command::v1::{RaiseFeatureLevel, RequestsRow, TombstonesRow, UsageRow, command::Operation},
    v1::{Lifetime, OpenSessionRequest, PutRequest, lifetime::Absolute},
};
use prost::Message;

use crate::{
    bounded::{DAY_MS, audited, call, commit, host, put, sweep_all, take},
    host::{Host, START_MS, command},
};

/// A derived row is changed behind the machine's back, and rewritten from a message.
pub(crate) fn forge<M: Message + Default>(
    host: &mut Host,
    table: u8,
    change: impl Fn(&mut M),
) -> usize {
    let is_of = |key: &[u8]| key.get(5 + usize::from(key[4])) == Some(&table);
    let mut forged = 0;
    for (key, value) in &mut host.rows.0 {
        if is_of(key) {
            let mut row = M::decode(&value[1..]).unwrap();
            change(&mut row);
            *value = [&[1][..], &row.encode_to_vec()].concat().into();
            forged += 1;
        }
    }
    forged
}

pub(crate) const TOMBSTONE_SUMMARY: u8 = 20;
const USAGE_TENANT: u8 = 32;
const USAGE_SESSIONS: u8 = 35;
pub(crate) const USAGE: [u8; 5] = [USAGE_TENANT, 33, 34, USAGE_SESSIONS, 38];

/// The table of the tenant's summary, or from level 5 on of a principal's.
pub(crate) fn request_summary(level: u32) -> u8 {
    if level < limits::FEATURE_LEVEL {
        27
    } else {
        30
    }
}

pub(crate) fn expiring(id: &str, ttl_ms: u64) -> Operation {
    Operation::Put(PutRequest {
        store: "cart".into(),
        id: id.into(),
        lifetime: Some(Lifetime {
            absolute: Some(Absolute::AfterMs(ttl_ms)),
            idle_ttl_ms: None,
        }),
        ..PutRequest::default()
    })
}

#[test]
fn counts_that_say_nothing_is_left_are_worked_out_again() {
    for level in [1, limits::FEATURE_LEVEL] {
        let mut host = host(level);
        for (number, id) in ["a", "b", "c"].into_iter().enumerate() {
            call(&mut host, number as u64, expiring(id, DAY_MS));
        }
        commit(&mut host, 10, [take("a"), put("d")]);
        assert_eq!(
            forge(&mut host, TOMBSTONE_SUMMARY, |row: &mut TombstonesRow| {
                row.rows = 0;
            }),
            1
        );
        assert_eq!(
            forge(
                &mut host,
                request_summary(level),
                |row: &mut RequestsRow| row.rows = 0
            ),
            1
        );
        for table in USAGE {
            forge(&mut host, table, |row: &mut UsageRow| {
                *row = UsageRow::default();
            });
        }
        assert!(audited(&host).is_err());
        sweep_all(&mut host, 5 * DAY_MS);
        assert!(host.repairs > 0);
        if level == limits::FEATURE_LEVEL {
            assert_eq!(audited(&host), Ok(()));
        }
    }
}

#[test]
fn counts_that_say_too_much_are_put_right_once_nothing_is_left() {
    let mut host = host(limits::FEATURE_LEVEL);
    commit(&mut host, 0, [put("a")]);
    commit(&mut host, 1, [take("a")]);
    assert_eq!(
        forge(&mut host, TOMBSTONE_SUMMARY, |row: &mut TombstonesRow| {
            row.rows = 2;
        }),
        1
    );
    assert_eq!(
        forge(
            &mut host,
            request_summary(limits::FEATURE_LEVEL),
            |row: &mut RequestsRow| row.rows = 3
        ),
        1
    );
    sweep_all(&mut host, 2 * DAY_MS);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 2));
}

#[test]
fn raise_has_counts_that_say_too_much_counted_again() {
    let mut host = host(4);
    host.bounds = Bounds::REPLICATED;
    for (number, id) in (0_u8..).zip(["a", "b", "c"]) {
        call(&mut host, number.into(), expiring(id, DAY_MS));
        let open = OpenSessionRequest {
            session_id: Bytes::copy_from_slice(&[number; limits::IDENTITY_BYTES]),
        };
        host.apply(&command(START_MS, Operation::OpenSession(open)));
    }
    assert_eq!(audited(&host), Ok(()));
    for table in [USAGE_TENANT, USAGE_SESSIONS] {
        let forged = forge(&mut host, table, |row: &mut UsageRow| {
            row.rows += 5;
            row.bytes += 500;
        });
        assert_eq!(forged, 1);
    }
    let level = limits::FEATURE_LEVEL;
    let raise = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
    host.apply(&command(START_MS + 3, raise));
    sweep_all(&mut host, 3);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 2));
}

/// Rows of the deadline index that name what is not there, or is due at another time.
#[test]
fn deadlines_that_name_nothing_are_dropped_and_what_they_name_keeps_its_own() {
    let mut host = host(limits::FEATURE_LEVEL);
    // What the raise itself has counted again.
    sweep_all(&mut host, 0);
    let open = OpenSessionRequest {
        session_id: Bytes::from_static(&[7; limits::IDENTITY_BYTES]),
    };
    host.apply(&command(START_MS, Operation::OpenSession(open)));
    call(&mut host, 0, expiring("a", 40 * DAY_MS));
    let index: Vec<Bytes> = host
        .rows
        .0
        .keys()
        .filter(|key| key[5] == 2)
        .cloned()
        .collect();
    assert_eq!(index.len(), 3, "a session, a record and an outcome");
    for key in index {
        let mut early = key.to_vec();
        early[6..14].copy_from_slice(&START_MS.to_be_bytes());
        let mut other = early.clone();
        *other.last_mut().unwrap() ^= 1;
        for key in [early, other] {
            host.rows.0.insert(key.into(), Bytes::new());
        }
    }
    let from: Vec<Bytes> = host
        .rows
        .0
        .keys()
        .filter(|key| key[5] == 5)
        .cloned()
        .collect();
    for key in from {
        host.rows.0.remove(&key);
    }
    sweep_all(&mut host, 1);
    assert!(host.repairs >= 5, "{}", host.repairs);
    assert_eq!(audited(&host), Ok(()));
}
