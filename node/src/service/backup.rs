//! Backups of this node's rows, streamed to an operator.
//!
//! ```text
//! read index ► snapshot ► describe (blocking) ► manifest ► chunks (blocking) ── at a pace ──► gRPC stream
//! ```
//!
//! The snapshot is the one that peers get, and it stays on disk as long as the backup lasts. So a
//! backup ends with its caller, with a caller that reads nothing, and after a day.

use std::{
    collections::{BTreeSet, HashSet},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use helve_proto::{
    TraceParent,
    v1::{BackupChunk, BackupManifest, BackupPart, BackupRequest, backup_part::Part},
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::{self, JoinError},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::{
    Services,
    admit::{self, Origin},
    failure::Failure,
    parts::{Charged, Parts, ended, hand_on, pumped, refused},
    status::Problem,
};
use crate::{
    audit::Entry,
    backup::{DescribeError, FileKey, Maker, describe, file_key},
    failpoint::{self, Failpoint},
    limits,
    storage::{checkpoint::SnapshotDir, error::StorageError},
    traces::{self, Span, Trace},
};

const RPC: &str = "Backup";

/// Why a backup ends early; `None`: its caller has gone.
type End = Option<Failure>;

/// Begins a backup. Failures end the stream.
pub(super) fn backup(
    services: &Arc<Services>,
    request: Request<BackupRequest>,
) -> Result<Response<Parts<BackupPart>>, Status> {
    let origin = Origin::of(&request)?;
    let account = Arc::clone(&origin.account);
    let deadline = admit::deadline(request.metadata(), Instant::now());
    let parent = services.proposer.traces().parent(request.metadata());
    let entry = services.begin_admin(RPC, (&origin.caller, origin.peer), || None)?;
    let (slot, deadline) = match begin(services, deadline) {
        Ok(begun) => begun,
        Err(failure) => return Err(refused(failure, entry)),
    };
    let (out, parts) = mpsc::channel(1);
    let sending = Sending {
        services: Arc::clone(services),
        origin,
        out,
        slot: Arc::new(slot),
        trace: None,
    };
    let request = request.into_inner();
    let pump = pump(sending, (request, parent), deadline, entry);
    Ok(pumped(RPC, account, pump, parts))
}

fn begin(
    services: &Services,
    deadline: Result<Instant, Failure>,
) -> Result<(OwnedSemaphorePermit, Instant), Failure> {
    let deadline = deadline?;
    let readiness = &services.cluster.readiness;
    readiness.serves().map_err(Failure::Stopping)?;
    Ok((services.backups.slot()?, deadline))
}

/// Runs a backup to its end, counts it, and records it.
async fn pump(
    mut sending: Sending,
    (request, parent): (BackupRequest, Option<TraceParent>),
    deadline: Instant,
    entry: Entry,
) -> Option<Problem> {
    let services = Arc::clone(&sending.services);
    let timer = services.metrics.stream(RPC);
    let caller = &sending.origin.caller;
    let span = caller.span(services.proposer.traces(), parent, RPC);
    sending.trace = span.as_ref().map(|span| span.trace().clone());
    let stopping = services.stopping.clone();
    let failure = tokio::select! {
        run = timeout(limits::BACKUP_TIME_MAX, sending.run(&request, deadline)) => match run {
            Ok(run) => run.err().flatten(),
            Err(_) => Some(Failure::NotNow(
                "the backup took longer than a day: its caller reads too slowly; files that arrived are not sent again".into(),
            )),
        },
        () = stopping.cancelled() => Some(Failure::Stopping("it is shutting down".into())),
    };
    ended(timer, entry, span, failure)
}

/// One backup under way.
struct Sending {
    services: Arc<Services>,
    origin: Origin,
    out: mpsc::Sender<Charged<BackupPart>>,
    /// Shared with the threads that read for it: they may outlive a backup that is cancelled.
    slot: Arc<OwnedSemaphorePermit>,
    /// Of the backup's span, if it is traced: its phases have one each, and its parts none.
    trace: Option<Trace>,
}

impl Sending {
    async fn run(&self, request: &BackupRequest, deadline: Instant) -> Result<(), End> {
        // All that was acknowledged before the call is in the rows from here on.
        let reader = &self.services.reader;
        let ticket = pin!(reader.confirmed(limits::NO_TENANT, deadline));
        let ticket = traces::within(self.trace.as_ref(), ticket).await;
        let ticket = ticket.map_err(Failure::from)?;
        let phase = self.phase("snapshot");
        let snapshot = self.snapshot(ticket.index).await?;
        drop(phase);
        let phase = self.phase("describe");
        let (snapshot, manifest) = self.described(snapshot).await?;
        drop(phase);
        let _phase = self.phase("send");
        let is_held = manifest.node_uuid == request.node_uuid;
        let held = is_held.then_some(&request.held[..]);
        let left_out = held_files(&snapshot, held.unwrap_or_default());
        self.send(Part::Manifest(manifest)).await?;
        self.files(snapshot, left_out).await
    }

    fn phase(&self, name: &'static str) -> Option<Span> {
        self.trace.as_ref()?.span(name)
    }

    /// A snapshot of this node's rows that holds this entry.
    async fn snapshot(&self, index: u64) -> Result<SnapshotDir, End> {
        let compaction = self.services.cluster.consensus.compaction();
        let taken = compaction.take_snapshot(limits::BACKUP_SNAPSHOT_TIME_MAX);
        let taken = self.alive(&AtomicU64::new(0), taken).await?;
        taken.map_err(Failure::from)?;
        let newest = self.services.backups.snapshots.current();
        let last = |it: &SnapshotDir| it.manifest().last_log_id.map_or(0, |last| last.index);
        let newest = newest.filter(|it| last(it) >= index);
        // A snapshot that came from the leader may have replaced it, and be older.
        let gone = || Failure::NotNow("the snapshot was replaced: run the command again".into());
        Ok(newest.ok_or_else(gone)?)
    }

    async fn described(&self, snapshot: SnapshotDir) -> Result<(SnapshotDir, BackupManifest), End> {
        let identity = self.services.cluster.consensus.identity();
        let maker = Maker {
            node_id: identity.node_id(),
            node_uuid: identity.record().uuid.clone(),
            keys: self.services.vault.keyring(),
        };
        let rows = Arc::new(AtomicU64::new(0));
        let (counted, stop) = (Arc::clone(&rows), CancellationToken::new());
        let stopped = stop.clone();
        // The thread does not go on for a caller that has gone.
        let _stop = stop.drop_guard();
        let slot = Arc::clone(&self.slot);
        let describing = task::spawn_blocking(move || {
            let _slot = slot;
            let manifest = describe(&snapshot, &maker, |rows| {
                counted.store(rows, Ordering::Relaxed);
                !stopped.is_cancelled()
            });
            manifest.map(|manifest| (snapshot, manifest))
        });
        let described = self.alive(&rows, describing).await?;
        let (snapshot, manifest) = described
            .map_err(|error| broke(&error))?
            .map_err(|error| unread(&error))?;
        let manifest = manifest.ok_or_else(|| Failure::Stopping("it is shutting down".into()))?;
        Ok((snapshot, manifest))
    }

    /// Sends all files but those left out, no faster than snapshots go to peers.
    async fn files(&self, snapshot: SnapshotDir, left_out: BTreeSet<usize>) -> Result<(), End> {
        let (made, mut chunks) = mpsc::channel(limits::SNAPSHOT_CHUNKS_QUEUED_MAX);
        let slot = Arc::clone(&self.slot);
        let reading = task::spawn_blocking(move || {
            let _slot = slot;
            for chunk in snapshot.chunks_without(left_out, limits::SNAPSHOT_CHUNK_BYTES) {
                failpoint::check(Failpoint::BackupChunk).map_err(StorageError::Snapshot)?;
                let chunk = chunk?;
                let chunk = BackupChunk {
                    file: chunk.file,
                    data: chunk.data,
                };
                // No caller takes it any more.
                if made.blocking_send(chunk).is_err() {
                    break;
                }
            }
            Ok::<_, StorageError>(())
        });
        let mut due = Instant::now();
        while let Some(chunk) = chunks.recv().await {
            sleep_until(due).await;
            due = due.max(Instant::now()) + limits::SNAPSHOT_CHUNK_PAUSE;
            self.send(Part::Chunk(chunk)).await?;
        }
        let read = reading.await.map_err(|error| broke(&error))?;
        Ok(read.map_err(|error| unread(&error.into()))?)
    }

    /// Waits for this, and gives signs of life meanwhile.
    async fn alive<T>(&self, rows: &AtomicU64, work: impl Future<Output = T>) -> Result<T, End> {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = timeout(limits::BACKUP_SIGN_OF_LIFE, &mut work).await {
                return Ok(done);
            }
            let rows = rows.load(Ordering::Relaxed);
            self.send(Part::RowsRead(rows)).await?;
        }
    }

    /// Sends a part to a caller that still may have it.
    async fn send(&self, part: Part) -> Result<(), End> {
        let Origin {
            caller, account, ..
        } = &self.origin;
        self.services.access_check.again(caller).await?;
        let part = BackupPart { part: Some(part) };
        let advice = "run the command again; files that arrived are not sent again";
        hand_on(account, &self.out, part, advice).await
    }
}

/// The files of a snapshot whose keys the caller named.
fn held_files(snapshot: &SnapshotDir, held: &[u8]) -> BTreeSet<usize> {
    let (keys, _rest) = held.as_chunks();
    let keys: HashSet<&FileKey> = keys.iter().take(limits::BACKUP_HELD_MAX).collect();
    let files = snapshot.manifest().files.iter().enumerate();
    let held = files.filter(|(_, file)| keys.contains(&file_key(file)));
    held.map(|(at, _)| at).collect()
}

fn broke(error: &JoinError) -> Failure {
    Failure::Stopping(format!("{RPC} broke: {error}"))
}

fn unread(error: &DescribeError) -> Failure {
    Failure::Stopping(format!("its snapshot cannot be read: {error}"))
}
