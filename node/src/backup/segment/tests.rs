//! Tests of segments of the archived log.

use helve_seal::Secret;

use super::*;

const PATH: &str = "log/run/1";

/// Entries from one index to another, each with a command of that time.
pub(in crate::backup) fn piece(from: u64, to: u64) -> LogPiece {
    piece_of(2, from, to)
}

/// The same entries, of this term.
pub(in crate::backup) fn piece_of(term: u64, from: u64, to: u64) -> LogPiece {
    let entries = (from..=to).map(|index| {
        let command = Command {
            proposed_at_ms: index.saturating_mul(1_000),
            ..Command::default()
        };
        let entry = LogEntry {
            format: 1,
            log_id: Some(LogId { term, index }),
            payload: Some(Payload::Command(command.encode_to_vec().into())),
        };
        entry.encode_to_vec().into()
    });
    LogPiece {
        entries: entries.collect(),
        proof: Bytes::new(),
    }
}

pub(in crate::backup) fn closed(from: u64, to: u64, before: Bytes) -> Closed {
    let after = LogId {
        term: 1,
        index: from - 1,
    };
    let mut growing = Growing::begin("0123456789", after, before);
    growing.add(&piece(from, to)).unwrap();
    growing.close()
}

/// A file with this head and these pieces, whatever they say.
pub(in crate::backup) fn forged(head: LogSegment, pieces: &[LogPiece]) -> Closed {
    let mut growing = Growing {
        head,
        frames: Vec::new(),
    };
    for piece in pieces {
        frame(&mut growing.frames, &piece.encode_to_vec());
    }
    growing.close()
}

fn read(content: &[u8]) -> Result<Segment, BackupError> {
    Segment::read(&Bytes::copy_from_slice(content), Path::new(PATH))
}

#[test]
fn segment_comes_back_as_it_was_written() {
    let closed = closed(5, 9, Bytes::from_static(b"before"));
    let segment = read(&closed.content).unwrap();
    assert_eq!(segment.head(), &closed.head);
    assert_eq!(segment.hash(), &closed.hash);
    assert_eq!(segment.pieces(), [piece(5, 9)]);
    let LogId { term, index } = segment.last();
    assert_eq!((term, index), (2, 9));
    assert_eq!((closed.head.first_ms, closed.head.last_ms), (5_000, 9_000));
}

#[test]
fn flipped_bit_or_a_cut_anywhere_is_found() {
    let content = closed(5, 9, Bytes::from_static(b"before")).content;
    for at in 0..content.len() {
        let mut flipped = content.to_vec();
        flipped[at] ^= 1;
        assert!(read(&flipped).is_err(), "byte {at} of {}", content.len());
        assert!(read(&content[..at]).is_err(), "cut at {at}");
    }
    // Cut before its first entry, with a head that says so.
    let empty = Growing::begin("0123456789", LogId::default(), Bytes::new());
    assert!(read(&empty.close().content).is_err());
}

#[test]
fn head_that_counts_from_zero_is_refused_and_moves_no_entry() {
    let mut growing = Growing::begin("0123456789", LogId::default(), Bytes::new());
    growing.add(&piece(1, 3)).unwrap();
    growing.head.first_index = 0;
    growing.head.first_term = 0;
    let (head, pieces) = (growing.head.clone(), vec![piece(1, 3)]);
    let refused = read(&growing.close().content).unwrap_err().to_string();
    assert!(refused.contains("begins with entry 0"), "{refused}");
    // Though such a head were taken, the entries say where they are.
    let segment = Segment {
        head,
        pieces,
        hash: Bytes::new(),
        bytes: 0,
    };
    let secret = Secret::new([1; 32]).unwrap();
    let keys = Keyring::new(&[secret], "segments of tests").unwrap();
    let check = |after| segment.check_proof(&keys, after, Path::new(PATH));
    let unproven = check(2);
    assert!(
        matches!(unproven, Err(BackupError::UnprovenSegment(_))),
        "{unproven:?}"
    );
    check(3).unwrap();
}

#[test]
fn entry_behind_the_last_one_of_all_is_refused() {
    let last = LogId {
        term: 1,
        index: u64::MAX,
    };
    let mut growing = Growing::begin("0123456789", last, Bytes::new());
    for index in [0, u64::MAX] {
        let refused = growing.add(&piece(index, index));
        assert!(
            matches!(refused, Err(BackupError::LogStream(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn entries_that_do_not_follow_are_not_added() {
    let after = LogId { term: 3, index: 4 };
    let mut growing = Growing::begin("0123456789", after, Bytes::new());
    for (from, why) in [
        (4, "entry 4 came while entry 5 was due"),
        (6, "entry 6 came while entry 5 was due"),
        (5, "behind term 3"),
    ] {
        let Err(BackupError::LogStream(said)) = growing.add(&piece(from, from)) else {
            panic!("entry {from} is taken");
        };
        assert!(said.contains(why), "{said}");
        assert!(growing.is_empty(), "{why}");
    }
}

#[test]
fn segment_follows_only_the_one_that_it_was_written_behind() {
    let first = closed(5, 9, Bytes::new());
    let next = closed(10, 12, first.hash.clone());
    let path = Path::new(PATH);
    let follows = |before: &Closed, next: &Closed| {
        let next = read(&next.content).unwrap();
        next.check_follows(&read(&before.content).unwrap(), path)
    };
    follows(&first, &next).unwrap();
    let gap = closed(11, 12, first.hash.clone());
    let swapped = closed(10, 12, next.hash.clone());
    let mut foreign = Growing::begin("9876543210", LogId::default(), first.hash.clone());
    foreign.head.first_index = 10;
    foreign.head.last_index = 9;
    foreign.add(&piece(10, 12)).unwrap();
    for other in [gap, swapped, foreign.close(), closed(5, 9, Bytes::new())] {
        let refused = follows(&first, &other);
        assert!(
            matches!(refused, Err(BackupError::Damaged { .. })),
            "{refused:?}"
        );
    }
    let refused = follows(&next, &first);
    assert!(
        matches!(refused, Err(BackupError::Damaged { .. })),
        "{refused:?}"
    );
}

#[test]
fn segment_of_a_newer_format_is_refused_with_its_version() {
    let mut growing = Growing::begin("0123456789", LogId::default(), Bytes::new());
    growing.head.format = FORMAT + 1;
    growing.head.version = "9.0.0".to_owned();
    let refused = read(&growing.close().content);
    let Err(BackupError::NewerSegment { version, found, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((version.as_str(), found), ("9.0.0", FORMAT + 1));
}
