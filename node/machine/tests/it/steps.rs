//! What a command reads only to remove or to count rows is bounded: the rest is left to later ones.

use bytes::Bytes;
use helve_machine::limits::{self, Bounds};
use helve_proto::{
    command::v1::{
        CountedRow, RaiseFeatureLevel, Refusal, RequestsRow, Tick, UsageRow, command::Operation,
        outcome::Outcome as Kind,
    },
    v1::{DeleteRequest, OpenSessionRequest, PutRequest, RenewRequest, TakeRequest},
};
use proptest::prelude::*;

use crate::{
    bounded::{audited, call, host, operation, step, sweep_all},
    drift::{USAGE, forge, request_summary},
    host::{Host, START_MS, command, session_identity},
};

const VALUE_BYTES: usize = 100;
/// So much is read of rows with such values that four of them are enough.
const BYTES_MAX: usize = 350;
const ROWS: u64 = 30;
const MINUTES_MS: u64 = 60_000;

fn bounded(level: u32, tick_rows_max: u32, sweep_bytes_max: usize) -> Host {
    let mut host = host(level);
    host.bounds = Bounds {
        tick_rows_max,
        sweep_bytes_max,
        ..Bounds::REPLICATED
    };
    // The raise has tombstones counted again.
    ticks(&mut host, 0, 1024);
    host
}

fn put(id: u64) -> Operation {
    Operation::Put(PutRequest {
        store: "cart".into(),
        id: format!("{id:02}"),
        value: Bytes::from(vec![7; VALUE_BYTES]),
        ..PutRequest::default()
    })
}

fn delete(id: u64) -> Operation {
    Operation::Delete(DeleteRequest {
        store: "cart".into(),
        id: format!("{id:02}"),
        ..DeleteRequest::default()
    })
}

fn take(id: u64) -> Operation {
    Operation::Take(TakeRequest {
        store: "cart".into(),
        id: format!("{id:02}"),
        ..TakeRequest::default()
    })
}

const SESSIONS: u8 = 35;
const PRINCIPALS: u8 = 38;

/// The counters of tenants, stores and owners, or of sessions, say less than nothing.
fn miscount(host: &mut Host, tables: impl Fn(u8) -> bool) {
    for table in USAGE.into_iter().filter(|table| tables(*table)) {
        forge(host, table, |row: &mut UsageRow| {
            row.rows = row.rows.wrapping_sub(1000);
            row.bytes = row.bytes.wrapping_sub(1_000_000);
        });
    }
}

fn recounts(host: &Host) -> usize {
    let rows = host.rows.0.iter().filter(|(key, _)| {
        let table = key.get(5 + usize::from(key[4]));
        table.is_some_and(|table| USAGE.contains(table))
    });
    let decoded = rows.map(|(_, value)| {
        let row: CountedRow = prost::Message::decode(&value[1..]).unwrap();
        row
    });
    decoded.filter(|row| row.recount.is_some()).count()
}

/// Ticks until nothing is due, and says how often.
fn ticks(host: &mut Host, after_ms: u64, rows_max: u32) -> u32 {
    let mut ticks = 1;
    while host.tick(START_MS + after_ms, rows_max).1 {
        ticks += 1;
        assert!(ticks < 10_000, "it does not end");
    }
    ticks
}

#[test]
fn a_recount_goes_on_by_a_bounded_number_of_rows_and_bytes() {
    for (rows_max, bytes_max, at_least) in [(5, usize::MAX, 3 * 6), (1024, BYTES_MAX, 3 * 7)] {
        let mut host = bounded(limits::FEATURE_LEVEL, rows_max, bytes_max);
        for id in 0..ROWS {
            call(&mut host, 0, put(id));
        }
        miscount(&mut host, |table| table != SESSIONS);
        // The tenant, the store and the owner are counted again.
        call(&mut host, 0, delete(0));
        assert_eq!((recounts(&host), host.repairs), (3, 0));
        let taken = ticks(&mut host, 0, 1024);
        assert!(taken >= at_least, "{taken} Ticks of {rows_max} rows");
        assert_eq!(
            (audited(&host), recounts(&host), host.repairs),
            (Ok(()), 0, 3)
        );
    }
}

#[test]
fn what_changes_while_a_recount_goes_on_is_counted_once() {
    let mut host = bounded(limits::FEATURE_LEVEL, 12, 15 * VALUE_BYTES);
    for id in 0..ROWS {
        call(&mut host, 0, put(id));
    }
    miscount(&mut host, |table| table != SESSIONS);
    call(&mut host, 0, delete(15));
    let mut turns = 0;
    while recounts(&host) > 0 {
        // Before the cursor, at it, behind it: larger, smaller, gone and new.
        let id = turns % ROWS;
        let renew = RenewRequest {
            store: "cart".into(),
            id: format!("{id:02}"),
            ..RenewRequest::default()
        };
        call(&mut host, turns, Operation::Renew(renew));
        call(&mut host, turns, take((id + 7) % ROWS));
        call(&mut host, turns, put((id + 7) % ROWS));
        call(&mut host, turns, put(50 + turns % 20));
        call(&mut host, turns, delete((id + 11) % ROWS));
        host.tick(START_MS + turns, 1024);
        turns += 1;
        assert!(turns < 10_000, "it does not end");
    }
    assert!(turns > 10, "{turns}");
    assert_eq!(audited(&host), Ok(()));
}

#[test]
fn sessions_are_counted_again_a_few_at_a_time() {
    let mut host = bounded(limits::FEATURE_LEVEL, 3, usize::MAX);
    let open = |number: u8| {
        Operation::OpenSession(OpenSessionRequest {
            session_id: Bytes::copy_from_slice(&[number; limits::IDENTITY_BYTES]),
        })
    };
    for number in 0..20 {
        host.apply(&command(START_MS, open(number)));
    }
    miscount(&mut host, |table| table == SESSIONS);
    host.apply(&command(START_MS, open(20)));
    let mut number = 21;
    while recounts(&host) > 0 {
        // One of them sorts before the cursor, and one behind it.
        host.apply_all(&[
            command(START_MS, open(number)),
            command(START_MS, open(255 - number)),
        ]);
        host.tick(START_MS, 1024);
        number += 1;
        assert!(number < 100, "it does not end");
    }
    assert!(number > 25, "{number}");
    assert_eq!(audited(&host), Ok(()));
}

/// Replicas batch entries as they arrive.
#[test]
fn sessions_in_one_batch_are_counted_as_one_by_one() {
    let level = limits::FEATURE_LEVEL;
    let mut commands = Vec::new();
    for number in [1, 2, 3, 4] {
        let open = OpenSessionRequest {
            session_id: Bytes::copy_from_slice(&[number; limits::IDENTITY_BYTES]),
        };
        commands.push(command(START_MS, Operation::OpenSession(open)));
    }
    let raise = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
    commands.push(command(START_MS, raise));
    commands.extend([4; 4].map(|rows_max| command(START_MS, Operation::Tick(Tick { rows_max }))));
    let mut one_by_one = bounded(4, 2, usize::MAX);
    let outcomes: Vec<_> = commands.iter().map(|each| one_by_one.apply(each)).collect();
    for size in 2..commands.len() {
        let mut batched = bounded(4, 2, usize::MAX);
        let again = commands
            .chunks(size)
            .flat_map(|some| batched.apply_all(some));
        assert_eq!(again.collect::<Vec<_>>(), outcomes, "in batches of {size}");
        assert_eq!(batched.rows, one_by_one.rows, "in batches of {size}");
    }
}

#[test]
fn outcomes_of_requests_are_counted_again_a_few_at_a_time() {
    let mut host = bounded(limits::FEATURE_LEVEL, 1024, BYTES_MAX);
    for id in 0..ROWS {
        let after_ms = if id < 4 { 0 } else { 9 * MINUTES_MS };
        call(&mut host, after_ms + id, put(id));
        call(&mut host, after_ms + id, take(id));
    }
    forge(
        &mut host,
        request_summary(limits::FEATURE_LEVEL),
        |row: &mut RequestsRow| {
            row.rows = 0;
        },
    );
    // The first are due, and more are there than were counted. What the recount has passed becomes due while it goes on.
    let mut after_ms = 11 * MINUTES_MS;
    let mut turns = 0;
    while host.tick(START_MS + after_ms, 3).1 {
        call(&mut host, after_ms, put(80));
        after_ms += MINUTES_MS;
        turns += 1;
        assert!(turns < 10_000, "it does not end");
    }
    assert!(turns > 10 && host.repairs > 0, "{turns}, {}", host.repairs);
    assert_eq!(audited(&host), Ok(()));
}

/// Outcomes of takes hold what was taken.
#[test]
fn outcomes_are_removed_within_the_bytes_that_a_command_may_read() {
    for (level, at_once) in [(4, 64), (limits::FEATURE_LEVEL, 6)] {
        let mut host = bounded(level, 1024, BYTES_MAX);
        for id in 0..ROWS {
            call(&mut host, id, put(id));
            call(&mut host, id, take(id));
        }
        let after_ms = 11 * MINUTES_MS;
        let (removed, more) = host.tick(START_MS + after_ms, 1024);
        assert!(
            removed > 0 && removed <= at_once,
            "{removed} at level {level}"
        );
        assert_eq!(more, level == limits::FEATURE_LEVEL);
        ticks(&mut host, after_ms, 1024);
        assert_eq!(audited(&host), Ok(()));
    }
}

/// Sessions from before the level have outcomes whose bytes are not noted.
#[test]
fn unmeasured_outcomes_are_forgotten_within_the_bytes_that_a_command_may_read() {
    let mut host = bounded(4, 1024, BYTES_MAX);
    let session_id = Bytes::from_static(&[7; limits::IDENTITY_BYTES]);
    let open = || {
        Operation::OpenSession(OpenSessionRequest {
            session_id: session_id.clone(),
        })
    };
    host.apply(&command(START_MS, open()));
    let numbered = |seq, first_incomplete, operation| {
        let mut command = command(START_MS, operation);
        command.identity = Some(session_identity(&session_id, seq, first_incomplete));
        command
    };
    for id in 0..ROWS {
        host.apply(&numbered(2 * id + 1, 1, put(id)));
        host.apply(&numbered(2 * id + 2, 1, take(id)));
    }
    let outcomes = |host: &Host| {
        host.rows
            .0
            .keys()
            .filter(|key| key.get(5 + 7) == Some(&25))
            .count()
    };
    let kept = outcomes(&host);
    assert_eq!(kept as u64, 2 * ROWS);
    let raise = RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    };
    host.apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
    ticks(&mut host, 0, 1024);
    // Its caller has all of them.
    let done = 2 * ROWS + 1;
    host.apply(&numbered(done, done, put(90)));
    let left = outcomes(&host);
    assert!(left > kept - 12 && left < kept, "{left} of {kept}");
    for more in 1..30 {
        host.apply(&numbered(done + more, done + more, put(90)));
        assert_eq!(audited(&host), Ok(()));
    }
    assert_eq!(outcomes(&host), 1);
    // What an expired session left is removed so, too.
    let mut expired = bounded(4, 1024, BYTES_MAX);
    expired.apply(&command(START_MS, open()));
    for id in 0..ROWS {
        expired.apply(&numbered(2 * id + 1, 1, put(id)));
        expired.apply(&numbered(2 * id + 2, 1, take(id)));
    }
    let raise = RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    };
    expired.apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
    ticks(&mut expired, 0, 1024);
    let late_ms = START_MS + 2 * (limits::SESSION_IDLE_TTL_MS + limits::SESSION_SLACK_MS);
    let mut tries = 0;
    while let Some(Kind::Refused(refused)) = expired.apply(&command(late_ms, open())).outcome {
        assert_eq!(refused.refusal(), Refusal::Clearing);
        tries += 1;
        assert!(tries < 100 && outcomes(&expired) > 0, "it does not end");
    }
    assert!(tries > 3, "{tries}");
    sweep_all(&mut expired, 0);
    assert_eq!((audited(&expired), outcomes(&expired)), (Ok(()), 0));
}

/// Whose stores and owners the commands name.
const OWNERS: [&str; 2] = ["", "ann"];

fn known(owner: &str) -> (String, String, String) {
    ("cart".into(), owner.into(), "known".into())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_that_are_wrong_heal_whatever_goes_on_meanwhile(commands in crate::properties::commands_of(operation(), step()), at in 0_usize..30) {
        let mut host = host(limits::FEATURE_LEVEL);
        sweep_all(&mut host, 0);
        for (store, owner, id) in OWNERS.map(known) {
            call(&mut host, 0, Operation::Put(PutRequest { store, owner, id, ..PutRequest::default() }));
        }
        let at = at.min(commands.len());
        for command in &commands[..at] {
            host.apply(command);
        }
        // What counts sessions may not be asked again.
        miscount(&mut host, |table| ![SESSIONS, PRINCIPALS].contains(&table));
        // Later than ids that may have to make place.
        let now_ms = commands[..at].last().map_or(0, |last| last.proposed_at_ms - START_MS) + 1;
        // Nothing refuses these, and each is counted.
        for (store, owner, id) in OWNERS.map(known) {
            call(&mut host, now_ms, Operation::Delete(DeleteRequest { store, owner, id, ..DeleteRequest::default() }));
        }
        prop_assert!(recounts(&host) > 0);
        for command in &commands[at..] {
            host.apply(command);
        }
        let after_ms = commands.last().unwrap().proposed_at_ms - START_MS;
        sweep_all(&mut host, after_ms.max(now_ms));
        prop_assert_eq!(recounts(&host), 0);
        prop_assert_eq!(audited(&host), Ok(()));
    }
}
