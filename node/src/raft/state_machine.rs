//! Committed entries become rows: in batches, each one write, never ahead of the durable log.
//!
//! Entries are applied on a thread of their own, so that a write that the storage engine stalls delays no heartbeat.

mod applier;
pub(super) mod apply_queue;
mod rows;

use std::{
    io,
    sync::{Arc, Mutex},
};

use futures::{FutureExt, Stream, StreamExt};
use helve_machine::planted::{self, Plant};
use openraft::{
    OptionalSend,
    alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf},
    storage::{EntryResponder, RaftStateMachine},
};
use tokio::sync::watch;

use self::{
    applier::Applier,
    apply_queue::ApplyQueue,
    rows::{Chunk, Rows},
};
use super::{
    codec,
    identity::Identity,
    log_store::{LogStore, PurgeGate},
    snapshot::SnapshotBuilder,
    types::TypeConfig,
};
use crate::storage::{
    checkpoint::{SnapshotDir, Snapshots},
    data_dir::DataDir,
    state_db::StateDb,
};

/// How far this node's rows have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last applied entry; 0 for none.
    pub index: u64,
    /// The replicated clock, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
    /// When the next row is due.
    pub next_deadline_ms: Option<u64>,
    /// The replicated feature level.
    pub feature_level: u32,
    /// Changes whenever how values must be sealed does, and when all are; 0 if nobody ever said.
    pub sealing_state: u64,
}

/// The rows, as openraft sees them.
pub struct StateMachine {
    rows: Arc<Rows>,
    snapshots: Arc<Snapshots>,
    log: LogStore,
    gate: PurgeGate,
    applier: Applier,
    /// The last entry that was handed to the applier.
    pushed: u64,
    applied: Arc<watch::Sender<Progress>>,
}

impl StateMachine {
    /// Takes up the rows where they are, and tells the log how far they are durable, which is how far it may be purged.
    ///
    /// # Errors
    /// If the rows cannot be read, or no thread can be had.
    pub fn start(
        state: Arc<StateDb>,
        snapshots: Arc<Snapshots>,
        identity: Arc<Identity>,
        data_dir: Arc<Mutex<DataDir>>,
        log: LogStore,
        gate: PurgeGate,
    ) -> io::Result<Self> {
        state.sync().map_err(io::Error::other)?;
        let rows = Arc::new(Rows::new(state, identity, data_dir));
        rows.note_name()?;
        let progress = rows.progress()?;
        gate.advance(progress.index);
        let applied = Arc::new(watch::Sender::new(progress));
        let applier = Applier::start(Arc::clone(&rows), Arc::clone(&applied))?;
        Ok(Self {
            rows,
            snapshots,
            log,
            gate,
            applier,
            pushed: progress.index,
            applied,
        })
    }

    /// What has been applied; changes with every batch.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<Progress> {
        self.applied.subscribe()
    }

    /// Where entries wait to be applied.
    pub(super) fn queue(&self) -> Arc<ApplyQueue> {
        Arc::clone(&self.applier.queue)
    }

    async fn push(&mut self, chunk: Chunk) -> io::Result<()> {
        let Some(last) = chunk.last.as_ref().map(|id| id.index) else {
            return Ok(());
        };
        // Rows that are ahead of the durable log could survive a crash that the entries do not.
        if !planted::is(Plant::ApplyBeforeDurable) {
            self.log.durable(last).await.map_err(io::Error::other)?;
        }
        self.applier.push(chunk).await?;
        self.pushed = last;
        Ok(())
    }

    /// Waits until the rows are as far as consensus believes.
    async fn catch_up(&self) -> io::Result<()> {
        self.applier.applied(self.pushed).await
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<TypeConfig>>, StoredMembershipOf<TypeConfig>)> {
        self.catch_up().await?;
        let last = self.rows.state.applied().map_err(io::Error::other)?;
        let membership = self.rows.state.membership().map_err(io::Error::other)?;
        let membership = codec::stored_membership_from_proto(membership.unwrap_or_default());
        Ok((
            last.as_ref().map(codec::log_id_from_proto),
            membership.map_err(io::Error::other)?,
        ))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut chunk = Chunk::default();
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            chunk.push(entry, responder);
            // What is ready goes together.
            while !chunk.is_full() {
                let Some(Some(next)) = entries.next().now_or_never() else {
                    break;
                };
                let (entry, responder) = next?;
                chunk.push(entry, responder);
            }
            self.push(std::mem::take(&mut chunk)).await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        if let Err(error) = self.catch_up().await {
            // The node ends for it. A snapshot of what is applied is no lie.
            tracing::error!(%error, "a snapshot is taken of rows that are not applied any further");
        }
        SnapshotBuilder::new(
            Arc::clone(&self.rows.state),
            Arc::clone(&self.snapshots),
            self.gate.clone(),
        )
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<TypeConfig>,
        snapshot: SnapshotDir,
    ) -> io::Result<()> {
        // Whatever was appended before must not reach the disk after the switch.
        self.log.barrier().await.map_err(io::Error::other)?;
        self.catch_up().await?;
        let rows = Arc::clone(&self.rows);
        let snapshots = Arc::clone(&self.snapshots);
        let installed = tokio::task::spawn_blocking(move || -> io::Result<Progress> {
            rows.state.install(&snapshot).map_err(io::Error::other)?;
            snapshots.publish(&snapshot).map_err(io::Error::other)?;
            rows.note_name()?;
            rows.progress()
        });
        let progress = installed.await.map_err(io::Error::other)??;
        if Some(progress.index) != meta.last_log_id.as_ref().map(|id| id.index) {
            return Err(io::Error::other(
                "the snapshot does not hold what its manifest says",
            ));
        }
        self.gate.advance(progress.index);
        self.pushed = progress.index;
        self.applier.queue.note_applied(progress.index);
        self.applied.send_replace(progress);
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<SnapshotOf<TypeConfig, SnapshotDir>>> {
        let Some(snapshot) = self.snapshots.current() else {
            return Ok(None);
        };
        let meta = codec::snapshot_meta(snapshot.manifest()).map_err(io::Error::other)?;
        Ok(Some(SnapshotOf::<TypeConfig, SnapshotDir> {
            meta,
            snapshot,
        }))
    }
}
