//! Tests of the archived log in a directory, and of points in time.

mod edited;

use std::{fs, path::PathBuf};

use helve_seal::{Keyring, Secret};

use super::*;
use crate::backup::{
    BackupError, PlainHttp, Run, Until,
    place::Place,
    point::{Point, base, find},
    proof,
    segment::tests::piece,
    tests::Node,
};

const CLUSTER: &str = "0123456789";

/// A backup of revision 2, and entries 3 to 5 and 6 to 9 behind it.
struct Setup {
    node: Node,
    run: PathBuf,
}

impl Setup {
    async fn new() -> Self {
        let mut node = Node::new();
        let backup = node.back_up("1").backup;
        let run = node.to().join(LOG_NAME).join(backup.id());
        let mut setup = Self { node, run };
        let place = setup.following();
        let mut tip = place.tip(CLUSTER).await.unwrap().unwrap();
        keep(&place, &mut tip, &[piece(3, 4), piece(5, 5)]).await;
        keep(&place, &mut tip, &[piece(6, 9)]).await;
        setup.node.term = 2;
        setup
    }

    fn following(&self) -> Place {
        Place::open_to_follow(&self.node.to(), PlainHttp::Refused).unwrap()
    }

    fn place(&self) -> Place {
        Place::open(&self.node.to(), PlainHttp::Refused).unwrap()
    }

    fn segment(&self, first: u64) -> PathBuf {
        self.run.join(digits(first))
    }

    async fn problems(&self) -> Vec<String> {
        let problems = self.place().verify_log(None, |_| {}).await.unwrap();
        problems.iter().map(ToString::to_string).collect()
    }

    async fn point(&self, until: Until) -> Result<Point, BackupError> {
        let place = self.place();
        let backup = base(&place, None, until).await?;
        find(&place, backup, until, &Keyring::default(), |_| {}).await
    }
}

async fn keep(place: &Place, tip: &mut Tip, pieces: &[helve_proto::v1::LogPiece]) {
    let mut growing = tip.segment(CLUSTER);
    for piece in pieces {
        growing.add(piece).unwrap();
    }
    place.keep(tip, growing.close()).await.unwrap();
}

#[tokio::test]
async fn archive_goes_on_where_it_ends() {
    let setup = Setup::new().await;
    let place = setup.following();
    let mut tip = place.tip(CLUSTER).await.unwrap().unwrap();
    assert_eq!((tip.run.as_str(), tip.last.index), ("01234567-2", 9));
    keep(&place, &mut tip, &[piece(10, 11)]).await;
    assert_eq!(setup.problems().await, Vec::<String>::new());
    let archive = place.archive().await.unwrap();
    let run = &archive.runs()[0];
    assert_eq!((run.first(), run.segments()), (3, 3));
    assert!(place.tip("9876543210").await.unwrap().is_none());
}

#[tokio::test]
async fn archive_without_a_backup_is_known() {
    let mut setup = Setup::new().await;
    let place = setup.following();
    let tip = place.tip(CLUSTER).await.unwrap().unwrap();
    assert!(place.has_backup_for(&tip).await.unwrap());
    let newer = setup.node.back_up("2").backup.id();
    let manifest = |id: &str| setup.node.to().join("backups").join(id);
    assert_ne!(newer, tip.run, "both backups have one revision");
    fs::remove_file(manifest(&tip.run)).unwrap();
    assert!(place.has_backup_for(&tip).await.unwrap(), "{newer} is left");
    // Of another cluster, older than the run, and what an interrupted backup left.
    fs::copy(manifest(&newer), manifest("76543210-9")).unwrap();
    fs::copy(manifest(&newer), manifest("01234567-1")).unwrap();
    fs::rename(manifest(&newer), manifest(&format!("{newer}.tmp"))).unwrap();
    assert!(!place.has_backup_for(&tip).await.unwrap());
    // Where all of it is gone, a disk may have been unmounted.
    let gone = setup.node.to().with_extension("gone");
    fs::rename(setup.node.to(), gone).unwrap();
    let looked = place.has_backup_for(&tip).await;
    assert!(matches!(looked, Err(BackupError::Io { .. })), "{looked:?}");
}

#[tokio::test]
async fn second_process_does_not_archive_beside_the_first() {
    let setup = Setup::new().await;
    let first = setup.following();
    let second = Place::open_to_follow(&setup.node.to(), PlainHttp::Refused);
    assert!(
        matches!(second, Err(BackupError::Followed(_))),
        "{second:?}"
    );
    drop(first);
    drop(setup.following());
}

#[tokio::test]
async fn missing_swapped_or_changed_segment_is_found() {
    let setup = Setup::new().await;
    let (first, last) = (setup.segment(3), setup.segment(6));
    let whole = (fs::read(&first).unwrap(), fs::read(&last).unwrap());
    fs::write(&first, &whole.1).unwrap();
    fs::write(&last, &whole.0).unwrap();
    assert_eq!(setup.problems().await.len(), 2, "swapped");
    fs::write(&last, &whole.1).unwrap();
    fs::write(&first, &whole.0[..whole.0.len() - 1]).unwrap();
    assert_eq!(setup.problems().await.len(), 1, "cut");
    let refused = setup.point(Until::Latest).await;
    assert!(
        matches!(refused, Err(BackupError::Damaged { .. })),
        "{refused:?}"
    );
    fs::remove_file(&first).unwrap();
    let refused = setup.point(Until::Latest).await;
    assert!(
        matches!(refused, Err(BackupError::Damaged { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn gap_between_segments_is_found_and_not_restored() {
    let setup = Setup::new().await;
    let place = setup.following();
    let mut tip = place.tip(CLUSTER).await.unwrap().unwrap();
    keep(&place, &mut tip, &[piece(10, 11)]).await;
    fs::remove_file(setup.segment(6)).unwrap();
    let problems = setup.problems().await;
    assert!(
        problems[0].contains("the one before ends with 5"),
        "{problems:?}"
    );
    let refused = setup.point(Until::Revision(10)).await;
    assert!(
        matches!(refused, Err(BackupError::Damaged { .. })),
        "{refused:?}"
    );
    assert_eq!(setup.point(Until::Revision(5)).await.unwrap().revision, 5);
}

#[tokio::test]
async fn damaged_last_segment_blocks_nothing_before_it() {
    let mut setup = Setup::new().await;
    let whole = fs::read(setup.segment(6)).unwrap();
    fs::write(setup.segment(6), &whole[..whole.len() - 1]).unwrap();
    assert_eq!(setup.point(Until::Revision(5)).await.unwrap().revision, 5);
    let refused = setup.point(Until::Revision(7)).await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("is damaged") && refused.contains("with --to-revision 5;"),
        "{refused}"
    );

    let second = setup.node.back_up("2").backup;
    let place = setup.following();
    let mut tip = Tip::behind(&second);
    keep(&place, &mut tip, &[piece(4, 12)]).await;
    assert_eq!(setup.point(Until::Latest).await.unwrap().revision, 12);
}

#[tokio::test]
async fn entries_of_another_history_are_not_restored_behind_a_backup() {
    let mut setup = Setup::new().await;
    setup.node.term = 3;
    let second = setup.node.back_up("2").backup;
    assert_eq!(second.manifest().revision, 3);
    let refused = setup.point(Until::Latest).await.unwrap_err().to_string();
    assert!(refused.contains("lost entries that were"), "{refused}");
}

/// A segment of this cluster with other entries than the first one of [`Setup`], in its place.
fn replace_first(setup: &Setup, cluster_id: &str, upto: u64) {
    let after = LogId { term: 1, index: 2 };
    let mut other = Growing::begin(cluster_id, after, Bytes::new());
    other.add(&piece(3, upto)).unwrap();
    fs::write(setup.segment(3), other.close().content).unwrap();
}

#[tokio::test]
async fn entries_of_a_cluster_whose_id_begins_alike_are_refused() {
    let setup = Setup::new().await;
    replace_first(&setup, "01234567xx", 5);
    let refused = setup.point(Until::Revision(5)).await.unwrap_err();
    assert!(
        matches!(refused, BackupError::Damaged { .. }),
        "{refused:?}"
    );
    let said = refused.to_string();
    assert!(said.contains("of another cluster"), "{said}");
}

#[tokio::test]
async fn segment_that_was_replaced_since_its_check_is_refused() {
    let setup = Setup::new().await;
    let point = setup.point(Until::Revision(5)).await.unwrap();
    let (place, checked) = (setup.place(), &point.segments[0]);
    Point::segment(&place, checked).await.unwrap();
    replace_first(&setup, CLUSTER, 4);
    let refused = Point::segment(&place, checked).await.unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("changed while it was restored"), "{said}");
}

#[tokio::test]
async fn run_that_does_not_begin_behind_its_backup_is_found() {
    let setup = Setup::new().await;
    fs::remove_file(setup.segment(3)).unwrap();
    let problems = setup.problems().await;
    assert!(
        problems[0].contains("begins with entry 6, and its backup ends with 2"),
        "{problems:?}"
    );
}

#[tokio::test]
async fn point_in_time_is_the_last_entry_that_is_not_later() {
    let setup = Setup::new().await;
    for (until, revision, segments) in [
        (Until::Latest, 9, 2),
        (Until::Revision(2), 2, 0),
        (Until::Revision(5), 5, 1),
        (Until::Revision(7), 7, 2),
        (Until::Time(4_999), 4, 1),
        (Until::Time(9_000), 9, 2),
    ] {
        let point = setup.point(until).await.unwrap();
        let found = (point.revision, point.segments.len());
        assert_eq!(found, (revision, segments), "{until}");
    }
    for until in [Until::Revision(10), Until::Time(9_001)] {
        let refused = setup.point(until).await.unwrap_err().to_string();
        assert!(
            refused.contains("reaches up to revision 9") && refused.contains("--to-latest"),
            "{refused}"
        );
    }
    let early = setup.point(Until::Revision(1)).await;
    assert!(
        matches!(early, Err(BackupError::TooEarly { .. })),
        "{early:?}"
    );
}

#[tokio::test]
async fn backup_that_is_made_meanwhile_uses_the_segments_behind_it() {
    let mut setup = Setup::new().await;
    let second = setup.node.back_up("2").backup;
    assert_eq!(second.manifest().revision, 3);
    let point = setup.point(Until::Revision(4)).await.unwrap();
    assert_eq!((point.backup.id(), point.revision), (second.id(), 4));
}

#[tokio::test]
async fn deleted_backup_takes_along_segments_that_no_other_needs() {
    let mut setup = Setup::new().await;
    let place = setup.place();
    let first = place.find(None).await.unwrap().id();
    for row in ["2", "3", "4"] {
        setup.node.back_up(row);
    }
    let newest = place.find(Some("01234567-5")).await.unwrap();
    for (id, why) in [
        ("01234567-3", "the first backup needs all"),
        (first.as_str(), "backup 4 needs entry 5"),
    ] {
        assert_eq!(delete(&setup, id).await, 0, "{id}: {why}");
        assert_eq!(setup.problems().await, Vec::<String>::new());
    }
    assert_eq!(delete(&setup, "01234567-4").await, 1);
    assert!(!setup.segment(3).exists() && setup.segment(6).exists());
    assert_eq!(setup.problems().await, Vec::<String>::new());
    assert_eq!(setup.point(Until::Latest).await.unwrap().revision, 9);
    assert_eq!(delete(&setup, &newest.id()).await, 1);
}

async fn delete(setup: &Setup, id: &str) -> u64 {
    let place = Place::open_to_delete(&setup.node.to(), PlainHttp::Refused).await;
    let place = place.unwrap();
    place.delete(id, Run::Real).await.unwrap().segments
}

#[tokio::test]
async fn entries_without_a_proof_or_of_another_key_are_not_restored() {
    let setup = Setup::new().await;
    let ring = |byte| {
        let secret = Secret::new([byte; 32]).unwrap();
        Keyring::new(&[secret], "archives of tests").unwrap()
    };
    let place = setup.following();
    let keys = ring(1);
    let bare = place.verify_log(Some(&keys), |_| {}).await.unwrap();
    assert!(
        matches!(
            bare[..],
            [
                BackupError::UnprovenSegment(_),
                BackupError::UnprovenSegment(_)
            ]
        ),
        "{bare:?}"
    );
    let mut tip = place.tip(CLUSTER).await.unwrap().unwrap();
    let proven = proof::piece(CLUSTER, piece(10, 11).entries, &keys).unwrap();
    let mut forged = proof::piece(CLUSTER, piece(12, 12).entries, &keys).unwrap();
    forged.entries = piece(12, 13).entries;
    keep(&place, &mut tip, &[proven]).await;
    keep(&place, &mut tip, &[forged]).await;
    let found = place.verify_log(Some(&keys), |_| {}).await.unwrap();
    assert!(
        matches!(found[2..], [BackupError::ForgedSegment(_)]),
        "{found:?}"
    );
    let other = place.verify_log(Some(&ring(2)), |_| {}).await.unwrap();
    let missing = |error: &&BackupError| matches!(error, BackupError::KeyMissing { .. });
    assert_eq!(other.iter().filter(missing).count(), 2, "{other:?}");
}

#[tokio::test]
async fn entries_that_a_backup_holds_need_no_proof() {
    let setup = Setup::new().await;
    let secret = Secret::new([1; 32]).unwrap();
    let keys = Keyring::new(&[secret], "archives of tests").unwrap();
    let place = setup.following();
    let mut tip = place.tip(CLUSTER).await.unwrap().unwrap();
    assert!(!tip.is_proven);
    let proven = proof::piece(CLUSTER, piece(12, 13).entries, &keys).unwrap();
    keep(&place, &mut tip, &[piece(10, 11), proven]).await;
    let name = place.archive().await.unwrap().runs()[0].last_name();
    let segment = place.segment(&name).await.unwrap();
    let is_taken = |after| segment.check_proof(&keys, after, &setup.run).is_ok();
    assert_eq!([9, 10, 11, 13].map(is_taken), [false, false, true, true]);
}

#[tokio::test]
async fn damaged_run_that_reaches_farther_is_not_passed_over() {
    let mut setup = Setup::new().await;
    let second = setup.node.back_up("2").backup;
    let place = setup.following();
    let mut tip = Tip::behind(&second);
    keep(&place, &mut tip, &[piece(4, 12)]).await;
    keep(&place, &mut tip, &[piece(13, 14)]).await;
    let run = setup.node.to().join(LOG_NAME).join(second.id());
    let last = run.join(format!("{:020}", 13));
    let whole = fs::read(&last).unwrap();
    fs::write(&last, &whole[..whole.len() - 1]).unwrap();
    let refused = setup.point(Until::Latest).await;
    assert!(
        matches!(refused, Err(BackupError::Damaged { .. })),
        "{refused:?}"
    );
    let point = setup.point(Until::Revision(12)).await.unwrap();
    assert_eq!(point.revision, 12);
}

#[tokio::test]
async fn whole_run_counts_before_a_damaged_one_that_reaches_as_far() {
    let mut setup = Setup::new().await;
    let damaged = setup.segment(6);
    let whole = fs::read(&damaged).unwrap();
    fs::write(&damaged, &whole[..whole.len() - 1]).unwrap();
    let second = setup.node.back_up("2").backup;
    keep(
        &setup.following(),
        &mut Tip::behind(&second),
        &[piece(4, 6)],
    )
    .await;
    assert_eq!(setup.point(Until::Latest).await.unwrap().revision, 6);
}
