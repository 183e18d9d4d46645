//! Tombstones that were miscounted are counted again bit by bit, while others come and go.

use bytes::Bytes;
use helve_machine::limits::{self, Bounds};
use helve_proto::{
    command::v1::{Command, RaiseFeatureLevel, TombstonesRow, command::Operation},
    v1::PutRequest,
};
use proptest::prelude::*;
use prost::Message as _;

use crate::{
    bounded::{DAY_MS, audited, call, commit, host, operation, put, step, sweep_all, take},
    drift::{TOMBSTONE_SUMMARY, forge},
    host::{Host, START_MS, command},
};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const TOMBSTONES: u64 = 30;
/// Six rows that a recount reads here take more.
const BYTES_MAX: usize = 150;

fn id(number: u64) -> String {
    format!("{number:02}")
}

/// A tenant with tombstones, each a minute after the one before, and nothing that is due within a
/// day.
fn with_tombstones(level: u32, bounds: Bounds) -> Host {
    let mut host = host(level);
    for number in 0..TOMBSTONES {
        host.bounds = bounds;
        commit(&mut host, number * MINUTE_MS, [put(&id(number))]);
        commit(&mut host, number * MINUTE_MS, [take(&id(number))]);
    }
    sweep_all(&mut host, 12 * HOUR_MS);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 0));
    host
}

fn summaries(host: &Host) -> impl Iterator<Item = TombstonesRow> {
    let rows = host.rows.0.iter();
    let rows = rows.filter(|(key, _)| key.get(5 + usize::from(key[4])) == Some(&TOMBSTONE_SUMMARY));
    rows.map(|(_, value): (_, &Bytes)| TombstonesRow::decode(&value[1..]).unwrap())
}

fn goes_on(host: &Host) -> bool {
    summaries(host).any(|summary| summary.recount.is_some())
}

fn say(host: &mut Host, rows: u64) {
    let forged = forge(host, TOMBSTONE_SUMMARY, |row: &mut TombstonesRow| {
        row.rows = rows;
    });
    assert_eq!(forged, 1);
}

fn raise() -> Operation {
    Operation::RaiseFeatureLevel(RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    })
}

/// A bound on rows, one on bytes, and by how many Ticks at least the recount takes.
const BOUNDED: [(u32, usize, u32); 2] = [(5, usize::MAX, 6), (1024, BYTES_MAX, 6)];

fn bounds(tick_rows_max: u32, sweep_bytes_max: usize) -> Bounds {
    Bounds {
        tick_rows_max,
        sweep_bytes_max,
        ..Bounds::REPLICATED
    }
}

#[test]
fn a_recount_of_tombstones_goes_on_by_a_bounded_number_of_rows_and_bytes() {
    for (rows_max, bytes_max, at_least) in BOUNDED {
        let mut host = with_tombstones(limits::FEATURE_LEVEL, bounds(rows_max, bytes_max));
        say(&mut host, 0);
        // The first is told no more, and goes: one more than was counted.
        commit(&mut host, DAY_MS, [put(&id(0))]);
        assert!(goes_on(&host));
        let mut ticks = 0;
        while goes_on(&host) {
            host.tick(START_MS + DAY_MS, 1024);
            ticks += 1;
            assert!(ticks < 1000, "it does not end");
        }
        assert!(ticks >= at_least, "{ticks} Ticks of {rows_max} rows");
        assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
    }
}

#[test]
fn a_raise_has_tombstones_counted_by_a_bounded_number_of_rows_and_bytes() {
    for (rows_max, bytes_max, at_least) in BOUNDED {
        let mut host = with_tombstones(4, bounds(rows_max, bytes_max));
        say(&mut host, 500);
        host.apply(&command(START_MS + 12 * HOUR_MS, raise()));
        let mut ticks = 0;
        while host.tick(START_MS + 12 * HOUR_MS, 1).1 {
            ticks += 1;
            assert!(ticks < 1000, "it does not end");
        }
        assert!(ticks >= at_least, "{ticks} Ticks of {rows_max} rows");
        assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
    }
}

#[test]
fn tombstones_that_come_and_go_while_they_are_counted_count_once() {
    let mut host = with_tombstones(limits::FEATURE_LEVEL, bounds(4, usize::MAX));
    say(&mut host, 0);
    commit(&mut host, DAY_MS, [put(&id(0))]);
    let mut turns = 1;
    while goes_on(&host) {
        let now_ms = DAY_MS + turns * MINUTE_MS;
        // Two at the beginning go, by a write over one and by the Tick, and one comes at the end.
        let late = id(TOMBSTONES + turns);
        commit(&mut host, now_ms, [put(&late)]);
        commit(&mut host, now_ms, [take(&late)]);
        if turns.is_multiple_of(2) {
            commit(&mut host, now_ms, [put(&id(turns))]);
        }
        host.tick(START_MS + now_ms, 12);
        turns += 1;
        assert!(turns < 1000, "it does not end");
    }
    assert!(turns > 5, "{turns} turns");
    assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
}

#[test]
fn a_count_without_any_tombstone_needs_no_recount() {
    let mut host = host(4);
    commit(&mut host, 0, [put("a")]);
    commit(&mut host, 1, [take("a")]);
    host.apply(&command(START_MS + 1, raise()));
    say(&mut host, 9);
    let put_again = PutRequest {
        store: "cart".into(),
        id: "a".into(),
        ..PutRequest::default()
    };
    call(&mut host, 2, Operation::Put(put_again));
    sweep_all(&mut host, 2 * DAY_MS);
    assert_eq!((audited(&host), host.repairs), (Ok(()), 1));
    assert_eq!(summaries(&host).count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn miscounted_tombstones_heal_whatever_goes_on_meanwhile(
        commands in crate::properties::commands_of(operation(), step()),
        at in 0_usize..40,
        said in 0_u64..9,
        batch in 2_usize..20,
    ) {
        let mut one_by_one = host(4);
        one_by_one.bounds = Bounds { tombstones_max: 7, tick_rows_max: 2, ..one_by_one.bounds };
        // The raise has them counted, and comes after they were miscounted.
        let is_raise = |command: &Command| matches!(command.operation, Some(Operation::RaiseFeatureLevel(_)));
        let commands: Vec<_> = commands.into_iter().filter(|command| !is_raise(command)).collect();
        prop_assume!(!commands.is_empty());
        let at = at.min(commands.len());
        for command in &commands[..at] {
            one_by_one.apply(command);
        }
        forge(&mut one_by_one, TOMBSTONE_SUMMARY, |row: &mut TombstonesRow| row.rows = said);
        let raised_ms = commands[..at].last().map_or(START_MS, |last| last.proposed_at_ms);
        one_by_one.apply(&command(raised_ms, raise()));
        let mut batched = Host { rows: one_by_one.rows.clone(), index: one_by_one.index, bounds: one_by_one.bounds, ..Host::default() };
        for command in &commands[at..] {
            one_by_one.apply(command);
        }
        for chunk in commands[at..].chunks(batch) {
            batched.apply_all(chunk);
        }
        prop_assert_eq!(&batched.rows, &one_by_one.rows);
        let after_ms = commands.last().unwrap().proposed_at_ms - START_MS + 1;
        sweep_all(&mut one_by_one, after_ms);
        prop_assert!(!goes_on(&one_by_one));
        prop_assert_eq!(audited(&one_by_one), Ok(()));
    }
}
