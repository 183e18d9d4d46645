//! Archives that were edited. With data keys, a restore applies no entry without a proof, whatever
//! heads, names and the order of pieces say: those have no proof.

use std::path::Path;

use helve_proto::v1::{LogPiece, LogSegment};

use super::*;
use crate::backup::segment::tests::{forged, piece_of};

/// A cluster whose id begins as that of [`CLUSTER`].
const ALIKE: &str = "01234567xx";

/// A segment, as it is edited.
struct Edited {
    name: u64,
    head: LogSegment,
    pieces: Vec<LogPiece>,
}

impl Edited {
    /// As an archive writes it behind this entry.
    fn behind(term: u64, index: u64, pieces: Vec<LogPiece>) -> Self {
        let mut growing = Growing::begin(CLUSTER, LogId { term, index }, Bytes::new());
        for piece in &pieces {
            growing.add(piece).unwrap();
        }
        Self {
            name: index + 1,
            head: growing.close().head,
            pieces,
        }
    }

    /// Unproven entries 1 to 4, under a head that counts from 0.
    fn counted_from_zero() -> Self {
        let mut edited = Self::behind(0, 0, vec![piece(1, 4)]);
        edited.head.first_index = 0;
        edited.head.first_term = 0;
        edited
    }

    /// Changes its pieces, with a head that fits them.
    fn change(&mut self, change: impl FnOnce(&mut Vec<LogPiece>)) {
        let mut pieces = self.pieces.clone();
        change(&mut pieces);
        *self = Self::behind(0, self.head.first_index - 1, pieces);
    }
}

fn ring() -> Keyring {
    let secret = Secret::new([1; 32]).unwrap();
    Keyring::new(&[secret], "archives of tests").unwrap()
}

fn proven(cluster_id: &str, entries: LogPiece) -> LogPiece {
    proof::piece(cluster_id, entries.entries, &ring()).unwrap()
}

/// Entries 3 to 9 in two segments, all but the first entry with a proof.
fn honest() -> Vec<Edited> {
    let proven = |from, to| proven(CLUSTER, piece(from, to));
    vec![
        Edited::behind(1, 2, vec![piece(3, 3), proven(4, 5)]),
        Edited::behind(2, 5, vec![proven(6, 7), proven(8, 9)]),
    ]
}

/// Writes a run. A head that names no file before it gets the right one, as an editor can do that.
fn write(run: &Path, segments: &[Edited]) {
    if run.exists() {
        fs::remove_dir_all(run).unwrap();
    }
    fs::create_dir_all(run).unwrap();
    let mut before = Bytes::new();
    for Edited { name, head, pieces } in segments {
        let mut head = head.clone();
        if head.before.is_empty() {
            head.before = before;
        }
        let closed = forged(head, pieces);
        fs::write(run.join(digits(*name)), &closed.content).unwrap();
        before = closed.hash;
    }
}

/// What was edited, how, and what is said of it.
type Row = (&'static str, fn(&mut Vec<Edited>), &'static str);

const HEADS_AND_NAMES: &[Row] = &[
    (
        "a head counts from 0",
        |all| {
            *all = vec![Edited::counted_from_zero()];
            all[0].name = 3;
        },
        "begins with entry 0",
    ),
    (
        "a head and a name count from 0",
        |all| {
            *all = vec![Edited::counted_from_zero()];
            all[0].name = 0;
        },
        "begins with entry 0",
    ),
    (
        "a segment has the name of an earlier one",
        |all| all[0].name = 2,
        "begins with entry 3, and its name says another one",
    ),
    (
        "a segment has the name of a later one",
        |all| all[1].name = 7,
        "begins with entry 6, and its name says another one",
    ),
    (
        "heads name a cluster whose id begins alike",
        |all| {
            for edited in all {
                edited.head.cluster_id = ALIKE.to_owned();
            }
        },
        "of another cluster",
    ),
    (
        "heads name another cluster",
        |all| {
            for edited in all {
                edited.head.cluster_id = "9876543210".to_owned();
            }
        },
        "of another cluster",
    ),
    (
        "a head ends later than its entries",
        |all| all[1].head.last_index = 10,
        "other entries than it says",
    ),
    (
        "a head begins at an earlier term",
        |all| all[1].head.first_term = 1,
        "other entries than it says",
    ),
    (
        "a head has another time",
        |all| all[1].head.last_ms = 1,
        "other entries than it says",
    ),
    (
        "a head names another file before it",
        |all| all[1].head.before = Bytes::from_static(b"other"),
        "not the one that it was written behind",
    ),
    (
        "a segment begins with an entry of the one before",
        |all| all[1] = Edited::behind(2, 4, vec![proven(CLUSTER, piece(5, 9))]),
        "the one before ends with 5",
    ),
    (
        "the first segment is gone",
        |all| drop(all.remove(0)),
        "begins with entry 6, and the backup ends with 3",
    ),
    (
        "a segment goes on behind the last index of all",
        |all| {
            let mut edited = Edited::behind(2, u64::MAX - 1, vec![piece(u64::MAX, u64::MAX)]);
            edited.pieces.push(piece(0, 0));
            all.push(edited);
        },
        "behind entry 18446744073709551615",
    ),
];

const PIECES: &[Row] = &[
    (
        "a piece without a proof begins in the backup",
        |all| all[0].change(|pieces| *pieces = vec![piece(3, 5)]),
        "have no proof",
    ),
    (
        "a piece without a proof is between others",
        |all| {
            let last = proven(CLUSTER, piece(5, 5));
            all[0].change(|pieces| *pieces = vec![piece(3, 3), piece(4, 4), last]);
        },
        "have no proof",
    ),
    (
        "a piece without a proof is added",
        |all| all[1].change(|pieces| pieces.push(piece(10, 10))),
        "have no proof",
    ),
    (
        "an entry is added to a piece",
        |all| all[1].change(|pieces| pieces[1].entries.extend(piece(10, 10).entries)),
        "was changed after a node sent it",
    ),
    (
        "a piece has another term",
        |all| all[1].change(|pieces| pieces[1].entries = piece_of(3, 8, 9).entries),
        "was changed after a node sent it",
    ),
    (
        "two pieces have each other's proof",
        |all| {
            let proof = all[1].pieces[0].proof.clone();
            all[1].pieces[0].proof = all[1].pieces[1].proof.clone();
            all[1].pieces[1].proof = proof;
        },
        "was changed after a node sent it",
    ),
    (
        "two pieces are made one",
        |all| {
            all[1].change(|pieces| {
                let last = pieces.remove(1);
                pieces[0].entries.extend(last.entries);
            });
        },
        "was changed after a node sent it",
    ),
    (
        "a piece is of a cluster whose id begins alike",
        |all| all[1].change(|pieces| pieces[1] = proven(ALIKE, piece(8, 9))),
        "was changed after a node sent it",
    ),
    (
        "a piece is of another history of the cluster",
        |all| {
            let piece = proven(CLUSTER, piece_of(1, 4, 5));
            *all = vec![Edited::behind(1, 3, vec![piece])];
        },
        "of another history of the cluster",
    ),
    (
        "pieces are in another order",
        |all| all[1].pieces.swap(0, 1),
        "entry 8 came while entry 6 was due",
    ),
    (
        "a piece is there twice",
        |all| {
            let again = all[1].pieces[1].clone();
            all[1].pieces.push(again);
        },
        "entry 8 came while entry 10 was due",
    ),
    (
        "a piece is gone",
        |all| drop(all[1].pieces.pop()),
        "other entries than it says",
    ),
    (
        "a piece is gone, and the head fits",
        |all| all[0].change(|pieces| pieces.truncate(1)),
        "the one before ends with 3",
    ),
    (
        "a piece is empty",
        |all| all[0].pieces.insert(0, LogPiece::default()),
        "a piece of it has no entry",
    ),
];

#[tokio::test]
async fn edited_archive_is_not_restored_with_data_keys() {
    let mut setup = Setup::new().await;
    let backup = setup.node.back_up("2").backup;
    assert_eq!(backup.manifest().revision, 3);
    let (place, keys) = (setup.place(), ring());
    let latest = async || find(&place, backup.clone(), Until::Latest, &keys, |_| {}).await;
    write(&setup.run, &honest());
    let point = latest().await.unwrap();
    assert_eq!((point.revision, point.segments.len()), (9, 2));
    for (what, edit, said) in HEADS_AND_NAMES.iter().chain(PIECES) {
        let mut segments = honest();
        edit(&mut segments);
        write(&setup.run, &segments);
        let refused = match latest().await {
            Ok(point) => panic!("{what}: it is restored up to {}", point.revision),
            Err(error) => error.to_string(),
        };
        assert!(refused.contains(said), "{what}: {refused}");
        let run = setup.run.display().to_string();
        assert!(refused.contains(&run), "{what}: {refused}");
        let next_step = "restore what is before";
        assert!(refused.contains(next_step), "{what}: {refused}");
    }
}

#[tokio::test]
async fn verification_finds_a_run_that_is_not_behind_its_backup() {
    let mut setup = Setup::new().await;
    let second = setup.node.back_up("2").backup.id();
    write(&setup.run, &honest());
    assert_eq!(setup.problems().await, Vec::<String>::new());
    let other = setup.node.to().join(LOG_NAME).join(second);
    write(&other, &[Edited::behind(1, 3, vec![piece_of(1, 4, 5)])]);
    let mut alike = honest();
    for edited in &mut alike {
        edited.head.cluster_id = ALIKE.to_owned();
    }
    write(&setup.run, &alike);
    let problems = setup.problems().await;
    let said = ["of another cluster", "of another history of the cluster"];
    assert_eq!(problems.len(), said.len(), "{problems:?}");
    for (problem, said) in problems.iter().zip(said) {
        assert!(problem.contains(said), "{problem}");
    }
}
