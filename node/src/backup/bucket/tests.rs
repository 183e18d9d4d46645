//! Tests of buckets: on a store in memory, and on one that fails.

mod failing;
mod log;
mod scripted;
mod stopped;

use helve_proto::{
    peer::v1::SnapshotChunk,
    v1::{BackupChunk, BackupManifest},
};
use object_store::memory::InMemory;
use prost::Message as _;

use super::{mark::Work, upload::Upload, *};
use crate::{
    backup::{Deleted, Run, receiver::Received, tests::Node},
    storage::checkpoint::SnapshotDir,
};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Small parts, so that files have several.
const BOUNDS: Bounds = Bounds {
    part_bytes: 64,
    ..Bounds::DEFAULT
};

/// A node, and the store that its backups go to.
struct Setup {
    node: Node,
    store: Arc<InMemory>,
}

impl Setup {
    fn new() -> Self {
        Self {
            node: Node::new(),
            store: Arc::new(InMemory::new()),
        }
    }

    fn bucket(&self) -> Bucket {
        self.bounded(BOUNDS)
    }

    fn bounded(&self, bounds: Bounds) -> Bucket {
        let url = PathBuf::from("s3://b/helve");
        Bucket::new(self.store.clone(), url, "helve".to_owned(), bounds)
    }

    /// Backs up as the command does.
    async fn back_up(&mut self, row: &'static str) -> Received {
        let (snapshot, manifest) = self.node.snapshot(row);
        let mut bucket = self.bucket();
        bucket.begin(Work::Backup).await.unwrap();
        let received = receive(&bucket, &snapshot, manifest).await.unwrap();
        bucket.end().await.unwrap();
        received
    }

    async fn delete(&self, id: &str, unfinished_min: Duration) -> Result<Deleted, BackupError> {
        let mut bucket = self.bucket();
        bucket.begin(Work::Delete).await?;
        let deleted = bucket.delete(id, Run::Real, unfinished_min).await;
        bucket.end().await?;
        deleted
    }

    /// The names of all objects below a part of the place.
    async fn names(&self, part: &str) -> BTreeSet<String> {
        let found = self.bucket().objects(part).await.unwrap();
        found.into_iter().map(|found| found.name).collect()
    }

    async fn put(&self, name: &str, content: &'static str) {
        let key = Key::parse(format!("helve/{name}")).unwrap();
        self.store.put(&key, content.into()).await.unwrap();
    }

    async fn get(&self, name: &str) -> Bytes {
        let key = Key::parse(format!("helve/{name}")).unwrap();
        let got = self.store.get(&key).await.unwrap();
        got.bytes().await.unwrap()
    }
}

/// Receives what a node sends that is told what is held.
async fn receive(
    bucket: &Bucket,
    snapshot: &SnapshotDir,
    manifest: BackupManifest,
) -> Result<Received, BackupError> {
    let held = bucket.held("node-0001").await?;
    let held: Vec<_> = held.chunks(FILE_KEY_BYTES).collect();
    let files = snapshot.manifest().files.iter().enumerate();
    let left_out = files.filter(|(_, file)| held.contains(&&file_key(file)[..]));
    let left_out: BTreeSet<usize> = left_out.map(|(at, _)| at).collect();
    let mut upload = Upload::begin(bucket, manifest).await?;
    for chunk in snapshot.chunks_without(left_out, 100) {
        let SnapshotChunk { file, data } = chunk.unwrap();
        upload.write(&BackupChunk { file, data }).await?;
    }
    upload.settle().await?;
    upload.finish().await
}

/// The files of a backup, as they are named below `files`.
fn names_of(backup: &Backup) -> BTreeSet<String> {
    let files = backup.files().iter();
    files
        .map(|file| format!("node-0001/{}", stored_name(file)))
        .collect()
}

#[tokio::test]
async fn second_backup_to_a_bucket_brings_only_new_files() {
    let mut setup = Setup::new();
    let first = setup.back_up("1").await;
    assert_eq!(
        (first.kept_bytes, first.sent_bytes),
        (0, first.backup.bytes())
    );
    let is_in_parts = |file: &BackupFile| file.size_bytes > 64;
    assert!(first.backup.files().iter().any(is_in_parts));
    let second = setup.back_up("2").await;
    assert!(second.kept_bytes > 0 && second.sent_bytes > 0, "{second:?}");
    assert_eq!(second.sent_bytes + second.kept_bytes, second.backup.bytes());
    let bucket = setup.bucket();
    let ids: Vec<_> = bucket.list().await.unwrap();
    let ids: Vec<_> = ids.into_iter().map(|it| it.id).collect();
    assert_eq!(ids, ["01234567-2", "01234567-3"]);
    assert_eq!(bucket.find(None).await.unwrap(), second.backup);
    let found = bucket.find(Some("01234567-2")).await.unwrap();
    assert_eq!(found, first.backup);
    let both = [&first.backup, &second.backup];
    let mut read = 0;
    let damaged = bucket.verify(&both, |bytes| read += bytes).await.unwrap();
    assert!(damaged.is_empty() && read > 0, "{damaged:?}");
    for id in ["../backups/01234567-2", "", "01234567-9"] {
        let none = bucket.find(Some(id)).await;
        assert!(matches!(none, Err(BackupError::NoSuch { .. })), "{id}");
    }
    assert!(setup.names(RUNNING_NAME).await.is_empty());
}

#[tokio::test]
async fn manifest_is_put_behind_all_files() {
    let mut setup = Setup::new();
    let (snapshot, manifest) = setup.node.snapshot("1");
    let mut bucket = setup.bucket();
    bucket.begin(Work::Backup).await.unwrap();
    let mut upload = Upload::begin(&bucket, manifest.clone()).await.unwrap();
    let chunks: Vec<_> = snapshot.chunks(100).map(Result::unwrap).collect();
    for chunk in &chunks[..chunks.len() - 1] {
        let (file, data) = (chunk.file, chunk.data.clone());
        upload.write(&BackupChunk { file, data }).await.unwrap();
    }
    assert!(matches!(upload.finish().await, Err(BackupError::Stream(_))));
    upload.abandon().await.unwrap();
    let none = bucket.list().await;
    assert!(matches!(none, Err(BackupError::Nothing(_))), "{none:?}");
    assert!(!setup.names(FILES_NAME).await.is_empty());
    let received = receive(&bucket, &snapshot, manifest).await.unwrap();
    assert!(received.kept_bytes > 0, "files that arrived are kept");
}

#[tokio::test]
async fn backup_never_takes_the_place_of_another_of_its_id() {
    let mut setup = Setup::new();
    let (snapshot, manifest) = setup.node.snapshot("1");
    let mut bucket = setup.bucket();
    bucket.begin(Work::Backup).await.unwrap();
    let first = receive(&bucket, &snapshot, manifest.clone()).await.unwrap();
    let name = format!("backups/{}", first.backup.id());
    let before = setup.get(&name).await;
    let same_rows = BackupManifest {
        version: "9.9.9".to_owned(),
        ..manifest.clone()
    };
    let again = receive(&bucket, &snapshot, same_rows).await.unwrap();
    assert_eq!(again.backup, first.backup);
    let other_rows = BackupManifest {
        digest: vec![0; 32].into(),
        ..manifest
    };
    let refused = receive(&bucket, &snapshot, other_rows).await;
    assert!(
        matches!(refused, Err(BackupError::Taken { .. })),
        "{refused:?}"
    );
    assert_eq!(setup.get(&name).await, before);
}

#[tokio::test]
async fn deletion_in_a_bucket_keeps_what_others_need() {
    let mut setup = Setup::new();
    let first = setup.back_up("1").await.backup;
    let second = setup.back_up("2").await.backup;
    let third = setup.back_up("3").await.backup;
    let dry = setup
        .bucket()
        .delete(&first.id(), Run::Dry, DAY)
        .await
        .unwrap();
    assert_eq!(setup.names(BACKUPS_NAME).await.len(), 3);
    setup
        .put("files/node-0001/000099.sst.4.00000000", "part")
        .await;
    let deleted = setup.delete(&first.id(), DAY).await.unwrap();
    assert!(dry.files > 0 && dry.files == deleted.files, "{deleted:?}");
    assert_eq!((deleted.backups, deleted.left_files), (2, 1));
    let mut left: BTreeSet<_> = names_of(&second);
    left.extend(names_of(&third));
    left.insert("node-0001/000099.sst.4.00000000".to_owned());
    assert_eq!(setup.names(FILES_NAME).await, left);
    let gone = setup.delete(&first.id(), DAY).await;
    assert!(matches!(gone, Err(BackupError::NoSuch { .. })), "{gone:?}");
    let deleted = setup.delete(&second.id(), Duration::ZERO).await.unwrap();
    assert_eq!(deleted.left_files, 0);
    assert_eq!(setup.names(FILES_NAME).await, names_of(&third));
    let damaged = setup.bucket().verify(&[&third], |_| {}).await.unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    assert!(setup.names(RUNNING_NAME).await.is_empty());
}

#[tokio::test]
async fn object_that_no_backup_names_so_is_not_deleted() {
    let mut setup = Setup::new();
    let id = setup.back_up("1").await.backup.id();
    let others = [
        "logs/app.log.2.1",
        "node-0001/old/app.log.2.00000001",
        "node-0001/app.log.9.00000001",
    ];
    for other in others {
        setup.put(&format!("{FILES_NAME}/{other}"), "it").await;
    }
    setup.delete(&id, Duration::ZERO).await.unwrap();
    let left = BTreeSet::from(others.map(str::to_owned));
    assert_eq!(setup.names(FILES_NAME).await, left);
}

#[tokio::test]
async fn unreadable_manifest_stops_a_deletion_in_a_bucket() {
    let mut setup = Setup::new();
    let first = setup.back_up("1").await.backup;
    let second = setup.back_up("2").await.backup;
    let before = setup.names(FILES_NAME).await;
    setup
        .put(&format!("backups/{}", second.id()), "no manifest")
        .await;
    for id in [first.id(), second.id()] {
        let refused = setup.delete(&id, Duration::ZERO).await;
        assert!(
            matches!(refused, Err(BackupError::Unreadable { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(setup.names(FILES_NAME).await, before);
    assert_eq!(setup.names(BACKUPS_NAME).await.len(), 2);
    assert!(setup.names(RUNNING_NAME).await.is_empty());
}

#[tokio::test]
async fn deletion_and_backup_keep_out_of_each_others_way() {
    let mut setup = Setup::new();
    let first = setup.back_up("1").await.backup;
    let (mut writer, mut other) = (setup.bucket(), setup.bucket());
    writer.begin(Work::Backup).await.unwrap();
    other.begin(Work::Backup).await.unwrap();
    other.end().await.unwrap();
    let refused = setup.delete(&first.id(), DAY).await;
    assert!(
        matches!(&refused, Err(BackupError::Marked { mark, .. }) if mark.starts_with("running/backup-")),
        "{refused:?}"
    );
    assert_eq!(setup.names(RUNNING_NAME).await.len(), 1, "its own mark");
    writer.end().await.unwrap();
    let mut deleting = setup.bucket();
    deleting.begin(Work::Delete).await.unwrap();
    for work in [Work::Backup, Work::Delete] {
        let refused = setup.bucket().begin(work).await;
        assert!(
            matches!(refused, Err(BackupError::Marked { .. })),
            "{work:?}: {refused:?}"
        );
    }
    deleting.end().await.unwrap();
    writer.begin(Work::Backup).await.unwrap();
    writer.end().await.unwrap();
}

#[tokio::test]
async fn mark_that_is_too_old_counts_for_nothing() {
    let mut setup = Setup::new();
    let first = setup.back_up("1").await.backup;
    let hasty = Bounds {
        backup: Duration::ZERO,
        backup_mark: Duration::ZERO,
        delete_mark: Duration::ZERO,
        ..BOUNDS
    };
    let (snapshot, manifest) = setup.node.snapshot("2");
    let mut killed = setup.bounded(hasty);
    killed.begin(Work::Backup).await.unwrap();
    let late = receive(&killed, &snapshot, manifest).await;
    assert!(matches!(late, Err(BackupError::TooLong(_))), "{late:?}");
    assert_eq!(setup.names(BACKUPS_NAME).await.len(), 1);
    setup.put("running/notes", "no mark").await;
    let mut deleting = setup.bounded(hasty);
    deleting.begin(Work::Delete).await.unwrap();
    deleting.delete(&first.id(), Run::Real, DAY).await.unwrap();
    deleting.end().await.unwrap();
    let left = setup.names(RUNNING_NAME).await;
    assert_eq!(left, BTreeSet::from(["notes".to_owned()]));
}

#[tokio::test]
async fn damaged_and_missing_files_of_a_bucket_are_named() {
    let mut setup = Setup::new();
    let backup = setup.back_up("1").await.backup;
    let mut files = backup.files().iter().filter(|file| file.size_bytes > 0);
    let (flipped, missing) = (files.next().unwrap(), files.next().unwrap());
    let name = below(&backup, flipped);
    let mut content = setup.get(&name).await.to_vec();
    content[0] ^= 1;
    let key = |name: &str| Key::parse(format!("helve/{name}")).unwrap();
    let flipped_key = key(&name);
    let put = setup.store.put(&flipped_key, content.into());
    put.await.unwrap();
    let gone = below(&backup, missing);
    setup.store.delete(&key(&gone)).await.unwrap();
    let damaged = setup.bucket().verify(&[&backup], |_| {}).await.unwrap();
    let said: Vec<_> = damaged.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    for named in [name, gone] {
        let url = format!("s3://b/helve/{named} is damaged");
        assert!(said.iter().any(|it| it.contains(&url)), "{url}: {said:?}");
    }
}

#[tokio::test]
async fn removed_object_of_a_bucket_is_sent_again() {
    let mut setup = Setup::new();
    let first = setup.back_up("1").await.backup;
    for file in first.files() {
        let key = Key::parse(format!("helve/{}", below(&first, file))).unwrap();
        setup.store.delete(&key).await.unwrap();
    }
    let second = setup.back_up("2").await;
    assert_eq!(second.kept_bytes, 0);
    let damaged = setup.bucket().verify(&[&second.backup], |_| {}).await;
    assert!(damaged.unwrap().is_empty());
}

#[tokio::test]
async fn place_with_more_objects_than_a_command_lists_is_refused() {
    let mut setup = Setup::new();
    let id = setup.back_up("1").await.backup.id();
    let bounds = Bounds {
        objects: 1,
        ..BOUNDS
    };
    let refused = setup.bounded(bounds).delete(&id, Run::Dry, DAY).await;
    assert!(
        matches!(&refused, Err(BackupError::Store(error)) if error.problem == StoreProblem::TooMany(1)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn manifests_that_are_too_large_together_are_refused() {
    let mut setup = Setup::new();
    let first = setup.back_up("1").await.backup;
    setup.back_up("2").await;
    let manifests_bytes = first.manifest().encoded_len() as u64;
    let bounds = Bounds {
        manifests_bytes,
        ..BOUNDS
    };
    let refused = setup.bounded(bounds).list().await;
    assert!(
        matches!(&refused, Err(BackupError::Store(error)) if error.problem == StoreProblem::TooLarge(manifests_bytes)),
        "{refused:?}"
    );
}
