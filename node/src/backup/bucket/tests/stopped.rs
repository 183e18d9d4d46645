//! Commands that are asked to stop while they work in a bucket.

use futures::{StreamExt as _, stream};

use super::{super::deletion::answered, *};

#[tokio::test]
async fn stopped_deletion_deletes_nothing_and_leaves_no_mark() {
    let mut setup = Setup::new();
    let made = setup.back_up("1").await.backup;
    let files = setup.names("files").await;
    let mut bucket = setup.bucket();
    bucket.begin(Work::Delete).await.unwrap();
    bucket.stop.cancel();
    let stopped = bucket.delete(&made.id(), Run::Real, DAY).await;
    assert!(
        matches!(stopped, Err(BackupError::NotBegun(_))),
        "{stopped:?}"
    );
    bucket.end().await.unwrap();
    assert_eq!(setup.names("running").await, BTreeSet::new());
    assert_eq!(setup.names("files").await, files);
    setup.delete(&made.id(), DAY).await.unwrap();
}

#[tokio::test]
async fn deletion_that_is_asked_to_stop_once_all_was_sent_is_done() {
    let bucket = Setup::new().bucket();
    let answers = |count: usize| {
        let stop = bucket.stop.clone();
        let keys = (0..count).map(|at| Key::from(format!("helve/{at}")));
        // Asked while the last answer is on its way.
        stream::iter(keys.map(Ok)).inspect(move |_| stop.cancel())
    };
    assert!(
        answered(&bucket, answers(2), 2).await.is_ok(),
        "all is gone"
    );
    let stopped = answered(&bucket, answers(2), 3).await;
    assert!(
        matches!(stopped, Err(BackupError::Stopped(_))),
        "{stopped:?}"
    );
}

#[tokio::test]
async fn mark_is_named_with_the_time_at_which_it_ends() {
    let setup = Setup::new();
    let mut bucket = setup.bucket();
    assert!(bucket.mark.is_none());
    for (work, lasts) in [
        (Work::Backup, BOUNDS.backup_mark),
        (Work::Delete, BOUNDS.delete_mark),
    ] {
        bucket.begin(work).await.unwrap();
        let (path, until_ms) = bucket.mark.as_ref().unwrap().left();
        let names = setup.names("running").await;
        let paths: Vec<_> = names
            .iter()
            .map(|name| Path::new("s3://b/helve/running").join(name))
            .collect();
        assert_eq!(paths, [path]);
        let lasts_ms = u64::try_from(lasts.as_millis()).unwrap();
        assert!(until_ms > lasts_ms, "{until_ms}");
        bucket.end().await.unwrap();
        assert!(bucket.mark.is_none());
    }
}
