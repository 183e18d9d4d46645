//! Logs under a disk key, and edits of them.

use super::*;

/// A log of ten entries under a key.
fn keyed_log(directory: &TempDir) -> Arc<DiskKey> {
    let key = DiskKey::new(&[1; 32]);
    let (log, recovered) = open_keyed(directory, &key).unwrap();
    let writer = LogWriter::start(Arc::clone(&log), &recovered).unwrap();
    let fixture = Fixture { log, writer };
    fixture.append(1, 0..10);
    key
}

fn open_keyed(
    directory: &TempDir,
    key: &Arc<DiskKey>,
) -> Result<(Arc<LogDb>, Recovered), StorageError> {
    LogDb::open_under(
        &path(directory),
        GROUP_ID,
        usize::MAX,
        Some(Arc::clone(key)),
    )
}

fn changed_entry(opened: Result<(Arc<LogDb>, Recovered), StorageError>) -> Option<String> {
    match opened {
        Err(StorageError::Changed(what)) => Some(what),
        _ => None,
    }
}

#[test]
fn a_log_under_a_key_opens_under_it_and_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let key = keyed_log(&directory);
    let (_, keyed) = open_keyed(&directory, &key).unwrap();
    assert_eq!(keyed.tail.len(), 10);
    let (_, unkeyed) = open(&directory).unwrap();
    assert!(
        keyed
            .tail
            .iter()
            .zip(&unkeyed.tail)
            .all(|(keyed, unkeyed)| keyed.0 == unkeyed.0)
    );
    let other = open_keyed(&directory, &DiskKey::new(&[2; 32]));
    assert_eq!(changed_entry(other).as_deref(), Some("log entry 0"));
}

#[test]
fn an_entry_that_was_changed_or_added_is_named() {
    type Edit = fn(&Fixture);
    let edits: [(u64, Edit); 3] = [
        (4, |log| log.put(4, &entry(1, 4).encode_to_vec())),
        (10, |log| log.append(1, 10..11)),
        (9, |log| {
            let blank = LogEntry {
                payload: Some(Payload::Blank(true)),
                ..entry(1, 9)
            };
            log.put(9, &blank.encode_to_vec());
        }),
    ];
    for (index, edit) in edits {
        let directory = tempfile::tempdir().unwrap();
        let key = keyed_log(&directory);
        edit(&Fixture::open(&directory));
        let named = changed_entry(open_keyed(&directory, &key));
        assert_eq!(named, Some(format!("log entry {index}")));
    }
}

#[test]
fn an_entry_in_the_place_of_another_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let key = keyed_log(&directory);
    let Fixture { log, writer } = Fixture::open(&directory);
    let fourth = log.db.get_cf(&log.family(LOG), log.entry_key(4));
    let fourth = fourth.unwrap().unwrap();
    let written = log.db.put_cf(&log.family(LOG), log.entry_key(5), fourth);
    written.unwrap();
    drop((log, writer));
    let opened = open_keyed(&directory, &key);
    assert!(matches!(opened, Err(StorageError::Unreadable { .. })));
}

#[test]
fn a_log_that_is_taken_as_it_is_fits_its_key_from_then_on() {
    let directory = tempfile::tempdir().unwrap();
    let former = keyed_log(&directory);
    Fixture::open(&directory).append(2, 10..20);
    let key = DiskKey::new(&[3; 32]);
    open(&directory).unwrap().0.adopt(&key).unwrap();
    let (log, recovered) = open_keyed(&directory, &key).unwrap();
    assert_eq!(recovered.tail.len(), 20);
    assert_eq!(recovered.tail[12].0, entry(2, 12));
    drop(log);
    assert!(changed_entry(open_keyed(&directory, &former)).is_some());
}
