//! A snapshot from the leader: received whole and checked beside the state that is served, before anything changes.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use helve_proto::peer::v1::{PeerHeader, SnapshotChunk, SnapshotPart, Vote, snapshot_part::Part};
use tokio::sync::mpsc;
use tonic::Status;

use crate::{
    failpoint::{self, Failpoint},
    limits::SNAPSHOT_CHUNKS_QUEUED_MAX,
    storage::{
        checkpoint::{SnapshotDir, Snapshots},
        error::StorageError,
    },
};

/// Receives a snapshot whole, checked against its manifest, beside the state that is served.
///
/// # Errors
/// What the check of the header says; `INVALID_ARGUMENT` if parts are missing or damaged; `INTERNAL` if it cannot be written.
pub(crate) async fn receive(
    snapshots: &Arc<Snapshots>,
    mut parts: impl Stream<Item = Result<SnapshotPart, Status>> + Unpin,
    check: impl Fn(Option<&PeerHeader>) -> Result<(), Status>,
) -> Result<(Option<Vote>, SnapshotDir), Status> {
    let malformed = |what: &str| Status::invalid_argument(format!("a snapshot {what}"));
    let first = parts
        .next()
        .await
        .ok_or_else(|| malformed("without parts"))??;
    let Some(Part::Start(start)) = first.part else {
        return Err(malformed("without a start"));
    };
    check(start.header.as_ref())?;
    let manifest = start
        .manifest
        .ok_or_else(|| malformed("without a manifest"))?;
    let (send, mut chunks) = mpsc::channel::<SnapshotChunk>(SNAPSHOT_CHUNKS_QUEUED_MAX);
    let snapshots = Arc::clone(snapshots);
    let written = tokio::task::spawn_blocking(move || {
        let mut writer = snapshots.receive(manifest)?;
        while let Some(chunk) = chunks.blocking_recv() {
            writer.write(&chunk)?;
            failpoint::check(Failpoint::ReceiveChunk).map_err(StorageError::Snapshot)?;
        }
        let received = writer.finish()?;
        failpoint::check(Failpoint::ReceiveFinished).map_err(StorageError::Snapshot)?;
        Ok::<_, StorageError>(received)
    });
    while let Some(part) = parts.next().await {
        let Some(Part::Chunk(chunk)) = part?.part else {
            return Err(malformed("with two starts"));
        };
        if send.send(chunk).await.is_err() {
            break;
        }
    }
    drop(send);
    let written = written.await.map_err(|e| Status::internal(e.to_string()))?;
    let snapshot = written.map_err(|e| refused(&e))?;
    Ok((start.vote, snapshot))
}

/// Only what was sent is the sender's fault.
fn refused(error: &StorageError) -> Status {
    match error {
        StorageError::Snapshot(_)
        | StorageError::Damaged { .. }
        | StorageError::NewerFormat { .. } => Status::invalid_argument(error.to_string()),
        StorageError::Engine { .. }
        | StorageError::Io { .. }
        | StorageError::Changed(_)
        | StorageError::BelowSynced { .. }
        | StorageError::Diverged { .. }
        | StorageError::NotCached
        | StorageError::Unreadable { .. }
        | StorageError::Stopped => Status::internal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::stream;
    use helve_proto::peer::v1::{SnapshotFile, SnapshotManifest, SnapshotStart};
    use proptest::prelude::*;
    use prost::Message;
    use tonic::Code;

    use super::*;
    use crate::{
        properties::{bytes_like, check},
        storage::checkpoint::ENGINE,
    };

    fn start(files: Vec<SnapshotFile>) -> SnapshotPart {
        let start = Part::Start(SnapshotStart {
            manifest: Some(SnapshotManifest {
                engine: ENGINE.to_owned(),
                files,
                ..SnapshotManifest::default()
            }),
            ..SnapshotStart::default()
        });
        SnapshotPart { part: Some(start) }
    }

    /// How a snapshot of one empty file is received there.
    async fn received(snapshots: &Arc<Snapshots>, file: &str) -> Result<(), Status> {
        let file = SnapshotFile {
            name: file.to_owned(),
            ..SnapshotFile::default()
        };
        let part = start(vec![file]);
        receive(snapshots, stream::iter([Ok(part)]), |_| Ok(()))
            .await
            .map(|_| ())
    }

    #[tokio::test]
    async fn only_what_was_sent_is_called_the_senders_fault() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("snapshots");
        let snapshots = Arc::new(Snapshots::open(&path).unwrap());
        received(&snapshots, "1.sst").await.unwrap();
        let refused = received(&snapshots, "../1.sst").await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        fs::remove_dir_all(&path).unwrap();
        let failed = received(&snapshots, "1.sst").await.unwrap_err();
        assert_eq!(failed.code(), Code::Internal);
    }

    #[test]
    fn a_snapshot_that_a_peer_makes_up_is_refused_or_is_what_its_manifest_says() {
        let directory = tempfile::tempdir().unwrap();
        let snapshots = Arc::new(Snapshots::open(directory.path()).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let data = b"rows".as_slice();
        let file = |name: &str, data: &[u8]| SnapshotFile {
            name: name.to_owned(),
            size_bytes: data.len() as u64,
            crc32c: crc32c::crc32c(data),
        };
        let chunk = SnapshotChunk {
            file: 1,
            data: data.into(),
        };
        let chunk = SnapshotPart {
            part: Some(Part::Chunk(chunk)),
        };
        let start = start(vec![file("CURRENT", b""), file("1.sst", data)]);
        let parts = [start, chunk].map(|part| bytes_like(vec![part.encode_to_vec()]));
        check(&parts, |parts| {
            let parts = parts.iter().map(|part| SnapshotPart::decode(&**part));
            let Ok(parts) = parts.collect::<Result<Vec<_>, _>>() else {
                return Ok(());
            };
            let parts = stream::iter(parts.into_iter().map(Ok));
            match runtime.block_on(receive(&snapshots, parts, |_| Ok(()))) {
                Ok((_, snapshot)) => {
                    let files = &snapshot.manifest().files;
                    let mut read = vec![Vec::new(); files.len()];
                    for chunk in snapshot.chunks(1 << 10) {
                        let chunk = chunk.unwrap();
                        read[chunk.file as usize].extend_from_slice(&chunk.data);
                    }
                    for (said, read) in files.iter().zip(&read) {
                        prop_assert_eq!(said, &file(&said.name, read));
                    }
                }
                Err(status) => prop_assert_eq!(status.code(), Code::InvalidArgument),
            }
            Ok(())
        });
    }
}
