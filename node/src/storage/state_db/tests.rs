//! Tests of `state_db`.

mod reopened;
mod scans;

use tempfile::TempDir;

use super::*;
use crate::storage::{
    checkpoint::Snapshots,
    state_meta::{FORMAT, FORMAT_KEY},
};
use helve_machine::View;

fn options() -> StateOptions {
    StateOptions {
        block_cache_bytes: 1 << 20,
        memtable_bytes: 1 << 20,
    }
}

fn open(directory: &TempDir) -> StateDb {
    StateDb::open(directory.path(), options()).unwrap()
}

fn log_id(index: u64) -> LogId {
    LogId { term: 1, index }
}

fn put(state: &StateDb, index: u64, key: &'static str, value: &'static str) {
    state
        .write([(key.into(), Some(value.into()))], &log_id(index), None)
        .unwrap();
}

fn get(state: &StateDb, key: &str) -> Option<Bytes> {
    state.read(|view| view.get(key.as_bytes())).unwrap()
}

fn generations_of(directory: &TempDir) -> Vec<u64> {
    let mut numbers: Vec<_> = generations(directory.path())
        .unwrap()
        .into_iter()
        .map(|(number, _)| number)
        .collect();
    numbers.sort_unstable();
    numbers
}

/// A snapshot of a state that says `cart` is `new` as of entry 9, ready to be installed elsewhere.
fn newer_snapshot(directory: &TempDir) -> SnapshotDir {
    let state = open(directory);
    put(&state, 9, "cart", "new");
    Snapshots::open(directory.path())
        .unwrap()
        .build(&state)
        .unwrap()
}

#[test]
fn rows_and_their_entry_come_back_together() {
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    assert_eq!(state.applied().unwrap(), None);
    put(&state, 3, "cart", "apple");
    put(&state, 4, "order", "pear");
    state
        .write(
            [("cart".into(), None)],
            &log_id(5),
            Some(&StoredMembership::default()),
        )
        .unwrap();
    drop(state);

    let state = open(&directory);
    assert_eq!(state.applied().unwrap(), Some(log_id(5)));
    assert_eq!(
        state.membership().unwrap(),
        Some(StoredMembership::default())
    );
    assert_eq!(
        (get(&state, "cart"), get(&state, "order")),
        (None, Some("pear".into()))
    );
}

#[test]
fn a_view_does_not_see_what_is_applied_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    put(&state, 1, "cart", "old");
    state.read(|view| {
        put(&state, 2, "cart", "new");
        assert_eq!(view.get(b"cart").unwrap(), Some("old".into()));
        assert_eq!(view.applied().unwrap(), Some(log_id(1)));
    });
    assert_eq!(get(&state, "cart"), Some("new".into()));
}

#[test]
fn a_range_is_ascending_bounded_and_half_open() {
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    for key in ["d", "a", "c", "b"] {
        put(&state, 1, key, key);
    }
    let range = |from: &str, to: &str, rows_max| {
        let rows = state
            .read(|view| view.range(from.as_bytes(), to.as_bytes(), rows_max))
            .unwrap();
        let keys = rows
            .into_iter()
            .map(|(key, _)| String::from_utf8(key.to_vec()).unwrap());
        keys.collect::<Vec<_>>().concat()
    };
    assert_eq!(range("a", "d", 10), "abc");
    assert_eq!(range("b", "z", 2), "bc");
    assert_eq!(range("a", "a", 10), "");
    assert_eq!(range("z", "a", 10), "");
}

#[test]
fn an_installed_snapshot_replaces_the_state_across_reopening() {
    let source = tempfile::tempdir().unwrap();
    let snapshot = newer_snapshot(&source);
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    put(&state, 3, "cart", "old");
    put(&state, 4, "order", "old");
    state.read(|view| {
        state.install(&snapshot).unwrap();
        // A view outlives the state that it shows.
        assert_eq!(view.get(b"order").unwrap(), Some("old".into()));
        assert_eq!(generations_of(&directory), [1, 2]);
    });
    assert_eq!(generations_of(&directory), [2]);
    assert_eq!(get(&state, "cart"), Some("new".into()));
    assert_eq!(get(&state, "order"), None);
    let written = state.read_to_write(|view| (view.get(b"cart"), view.get(b"order")));
    assert_eq!(written.0.unwrap(), Some("new".into()));
    assert_eq!(written.1.unwrap(), None, "a row of the state before");
    put(&state, 10, "cart", "newer");
    drop(state);

    let state = open(&directory);
    assert_eq!(state.applied().unwrap(), Some(log_id(10)));
    assert_eq!(get(&state, "cart"), Some("newer".into()));
}

#[test]
fn a_crash_before_the_pointer_leaves_the_old_state() {
    let source = tempfile::tempdir().unwrap();
    let snapshot = newer_snapshot(&source);
    let directory = tempfile::tempdir().unwrap();
    put(&open(&directory), 3, "cart", "old");
    snapshot
        .copy_to(&generation_path(directory.path(), 2))
        .unwrap();
    assert_eq!(generations_of(&directory), [1, 2]);

    let state = open(&directory);
    assert_eq!(get(&state, "cart"), Some("old".into()));
    assert_eq!(generations_of(&directory), [1]);
    state.install(&snapshot).unwrap();
    assert_eq!(get(&state, "cart"), Some("new".into()));
}

#[test]
fn a_crash_behind_the_pointer_leaves_the_new_state() {
    let source = tempfile::tempdir().unwrap();
    let snapshot = newer_snapshot(&source);
    let directory = tempfile::tempdir().unwrap();
    put(&open(&directory), 3, "cart", "old");
    snapshot
        .copy_to(&generation_path(directory.path(), 2))
        .unwrap();
    write_pointer(directory.path(), 2).unwrap();

    let state = open(&directory);
    assert_eq!(get(&state, "cart"), Some("new".into()));
    assert_eq!(generations_of(&directory), [2]);
}

#[test]
fn a_pointer_that_was_never_finished_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    put(&open(&directory), 3, "cart", "old");
    fs::write(directory.path().join("CURRENT.tmp"), "2").unwrap();
    assert_eq!(get(&open(&directory), "cart"), Some("old".into()));
}

#[test]
fn a_lost_or_damaged_pointer_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    put(&open(&directory), 3, "cart", "old");
    let pointer = pointer_path(directory.path());
    fs::write(&pointer, "\0\0\0\x001").unwrap();
    let opened = StateDb::open(directory.path(), options());
    assert!(matches!(opened, Err(StorageError::Damaged { .. })));
    fs::remove_file(&pointer).unwrap();
    let opened = StateDb::open(directory.path(), options());
    assert!(matches!(opened, Err(StorageError::Damaged { .. })));
    assert_eq!(generations_of(&directory), [1]);
}

#[test]
fn a_state_of_a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    let generation = state.generation();
    let meta = family(&generation.db, META);
    generation
        .db
        .put_cf(&meta, FORMAT_KEY, (FORMAT + 1).to_be_bytes())
        .unwrap();
    drop(meta);
    drop(generation);
    drop(state);
    let opened = StateDb::open(directory.path(), options());
    assert!(matches!(opened, Err(StorageError::NewerFormat { .. })));
}

/// What a crash would leave now: that is in files.
fn crashed(directory: &TempDir) -> DB {
    let path = generation_path(directory.path(), 1);
    let families = options::state_families(&options());
    DB::open_cf_descriptors_read_only(&options::state_db(&options()), path, families, false)
        .unwrap()
}

fn row_of(left: &DB, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    left.get_cf(&family(left, ROWS), key).unwrap()
}

#[test]
fn what_was_synced_outlives_a_crash_and_nothing_else_is_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    put(&state, 3, "cart", "apple");
    state.sync().unwrap();
    put(&state, 4, "cart", "pear");
    let left = crashed(&directory);
    assert_eq!(read_applied(&left).unwrap(), Some(log_id(3)));
    assert_eq!(row_of(&left, "cart"), Some("apple".into()));
}

#[test]
fn a_memtable_that_fills_up_reaches_the_disk_with_the_entry_that_it_is_of() {
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    let value = Bytes::from(vec![7; 1 << 10]);
    // Until some memtable was flushed in the background.
    let left = (1_u64..100_000).find_map(|index| {
        let key = Bytes::copy_from_slice(&index.to_be_bytes());
        let row = [(key, Some(value.clone()))];
        state.write(row, &log_id(index), None).unwrap();
        let left = (index % 256 == 0).then(|| crashed(&directory))?;
        row_of(&left, 1_u64.to_be_bytes()).map(|_| left)
    });
    let left = left.expect("100 MB do not fit in memtables of 1 MiB");
    let applied = read_applied(&left).unwrap().unwrap().index;
    assert!((1..=applied).all(|index| row_of(&left, index.to_be_bytes()).is_some()));
    assert_eq!(row_of(&left, (applied + 1).to_be_bytes()), None);
}

/// The key of a row that never replaces another.
fn outcome_key() -> Bytes {
    let key = Bytes::from_static(&[0, 0, 0, 1, 1, b't', 25, 7]);
    assert!(is_never_replaced(&key));
    key
}

fn write(state: &StateDb, index: u64, rows: &[(Bytes, Option<Bytes>)]) {
    state.write(rows.to_vec(), &log_id(index), None).unwrap();
}

#[test]
fn an_outcome_that_came_and_went_before_a_flush_leaves_nothing_in_files() {
    let directory = tempfile::tempdir().unwrap();
    let state = open(&directory);
    write(&state, 1, &[(outcome_key(), Some("first".into()))]);
    write(&state, 2, &[(outcome_key(), None)]);
    put(&state, 3, "cart", "apple");
    state.sync().unwrap();
    let files = state.generation().db.live_files().unwrap();
    let rows = files
        .iter()
        .filter(|file| file.column_family_name == ROWS)
        .map(|file| (file.num_entries, file.num_deletions));
    assert_eq!(rows.collect::<Vec<_>>(), [(1, 0)]);
}

#[test]
fn outcome_put_again_and_deleted_does_not_come_back() {
    for (together, apart) in [(false, false), (false, true), (true, false), (true, true)] {
        let directory = tempfile::tempdir().unwrap();
        let state = open(&directory);
        write(&state, 1, &[(outcome_key(), Some("first".into()))]);
        state.sync().unwrap();
        let again = [
            (outcome_key(), None),
            (outcome_key(), Some("second".into())),
        ];
        if together {
            write(&state, 2, &again);
        } else {
            write(&state, 2, &again[..1]);
            state.sync().unwrap();
            write(&state, 3, &again[1..]);
        }
        let kept = || state.read(|view| view.get(&outcome_key())).unwrap();
        assert_eq!(kept(), Some("second".into()));
        if apart {
            state.sync().unwrap();
        }
        write(&state, 4, &[(outcome_key(), None)]);
        for _ in 0..2 {
            assert_eq!(
                kept(),
                None,
                "put again in one write: {together}, deleted in another file: {apart}"
            );
            state.sync().unwrap();
            let generation = state.generation();
            let rows = family(&generation.db, ROWS);
            generation
                .db
                .compact_range_cf(&rows, None::<&[u8]>, None::<&[u8]>);
        }
    }
}
