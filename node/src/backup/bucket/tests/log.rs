//! The archived log in a bucket.

use super::*;
use crate::backup::{
    bucket::log::LogObjects,
    segment::{Segment, tests::closed},
};

const NAME: &str = "log/01234567-2/00000000000000000003";

#[tokio::test]
async fn segment_in_a_bucket_is_kept_once() {
    let setup = Setup::new();
    let bucket = setup.bucket();
    let log = LogObjects(&bucket);
    let (own, other) = (closed(3, 5, Bytes::new()), closed(3, 4, Bytes::new()));
    assert_eq!(log.read(NAME).await.unwrap(), None);
    log.put(NAME, own.content.clone()).await.unwrap();
    log.put(NAME, own.content.clone()).await.unwrap();
    let refused = log.put(NAME, other.content).await;
    assert!(
        matches!(refused, Err(BackupError::Followed(_))),
        "{refused:?}"
    );
    let read = log.read(NAME).await.unwrap().unwrap();
    let segment = Segment::read(&read, Path::new(NAME)).unwrap();
    assert_eq!(segment.head(), &own.head);
    let archive = log.archive().await.unwrap();
    assert_eq!(archive.runs()[0].bytes(), own.content.len() as u64);
}

#[tokio::test]
async fn last_backup_in_a_bucket_takes_its_log_along() {
    let mut setup = Setup::new();
    let backup = setup.back_up("1").await.backup;
    let bucket = setup.bucket();
    let content = closed(3, 5, Bytes::new()).content;
    LogObjects(&bucket).put(NAME, content).await.unwrap();
    setup.put("log/not-a-run", "other").await;
    assert_eq!(LogObjects(&bucket).ids().await.unwrap(), [backup.id()]);
    let deleted = setup.delete(&backup.id(), DAY).await.unwrap();
    assert_eq!(deleted.segments, 1);
    assert!(LogObjects(&bucket).ids().await.unwrap().is_empty());
    let left = setup.names("log").await;
    assert_eq!(left.into_iter().collect::<Vec<_>>(), ["not-a-run"]);
}
