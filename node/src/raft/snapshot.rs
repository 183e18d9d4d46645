//! Snapshots: made as checkpoints beside the running state, and sent file by file in chunks.

use std::{io, sync::Arc};

use futures::{Stream, StreamExt as _};
use helve_proto::peer::v1::{PeerHeader, SnapshotPart, SnapshotStart, snapshot_part::Part};
use openraft::{
    alias::{SnapshotOf, VoteOf},
    storage::RaftSnapshotBuilder,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_stream::wrappers::ReceiverStream;

use super::{codec, types::TypeConfig};
use crate::{
    failpoint::{self, Failpoint},
    limits::{SNAPSHOT_CHUNK_BYTES, SNAPSHOT_CHUNK_PAUSE, SNAPSHOT_CHUNKS_QUEUED_MAX},
    storage::{
        checkpoint::{SnapshotDir, Snapshots},
        error::StorageError,
        purge_gate::PurgeGate,
        state_db::StateDb,
    },
};

/// Makes a snapshot of the rows while they go on changing.
pub struct SnapshotBuilder {
    state: Arc<StateDb>,
    snapshots: Arc<Snapshots>,
    gate: PurgeGate,
}

impl SnapshotBuilder {
    pub(super) fn new(state: Arc<StateDb>, snapshots: Arc<Snapshots>, gate: PurgeGate) -> Self {
        Self {
            state,
            snapshots,
            gate,
        }
    }
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotDir;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, SnapshotDir>> {
        let state = Arc::clone(&self.state);
        let snapshots = Arc::clone(&self.snapshots);
        let taken = tokio::task::spawn_blocking(move || {
            let snapshot = snapshots.build(&state)?;
            failpoint::pass(Failpoint::BuildPublished);
            Ok::<_, StorageError>(snapshot)
        });
        let snapshot = taken
            .await
            .map_err(io::Error::other)?
            .map_err(io::Error::other)?;
        let meta = codec::snapshot_meta(snapshot.manifest()).map_err(io::Error::other)?;
        let index = meta.last_log_id.as_ref().map_or(0, |id| id.index);
        // What a snapshot covers may be purged from the log: the rows in it were flushed for it, and are durable in the state, too.
        self.gate.advance(index);
        tracing::info!(index, "took a snapshot");
        Ok(SnapshotOf::<TypeConfig, SnapshotDir> { meta, snapshot })
    }
}

/// A snapshot as messages, read from disk on a thread of its own as the receiver takes them, but no faster than at a pace that leaves
/// processors and disks to callers.
pub(super) fn parts(
    header: PeerHeader,
    vote: &VoteOf<TypeConfig>,
    snapshot: SnapshotDir,
) -> impl Stream<Item = SnapshotPart> + Send + 'static {
    let start = SnapshotStart {
        header: Some(header),
        vote: Some(codec::vote_to_proto(vote)),
        manifest: Some(snapshot.manifest().clone()),
    };
    let (send, parts) = mpsc::channel(SNAPSHOT_CHUNKS_QUEUED_MAX);
    tokio::task::spawn_blocking(move || {
        if let Err(error) = read_parts(start, &snapshot, &send) {
            // The receiver sees a snapshot that ends early, refuses it, and the leader sends it again.
            tracing::error!(%error, "a snapshot could not be read");
        }
    });
    let mut due = Instant::now();
    ReceiverStream::new(parts).then(move |part| {
        due = due.max(Instant::now());
        let sent = sleep_until(due);
        due += SNAPSHOT_CHUNK_PAUSE;
        async move {
            sent.await;
            part
        }
    })
}

fn read_parts(
    start: SnapshotStart,
    snapshot: &SnapshotDir,
    send: &mpsc::Sender<SnapshotPart>,
) -> Result<(), StorageError> {
    let part = |part| SnapshotPart { part: Some(part) };
    if send.blocking_send(part(Part::Start(start))).is_err() {
        return Ok(());
    }
    for chunk in snapshot.chunks(SNAPSHOT_CHUNK_BYTES) {
        failpoint::check(Failpoint::SendChunk).map_err(StorageError::Snapshot)?;
        if send.blocking_send(part(Part::Chunk(chunk?))).is_err() {
            return Ok(());
        }
    }
    Ok(())
}
