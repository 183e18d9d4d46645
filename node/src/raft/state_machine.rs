//! The rows as openraft sees them: committed entries go to `apply.rs` in chunks, never ahead of the durable log.

#[cfg(test)]
pub(crate) mod made_up_tests;

use std::{
    io, mem,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt};
use helve_machine::planted::{self, Plant};
use openraft::{
    OptionalSend,
    alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf},
    storage::{ApplyResponder, EntryResponder, RaftStateMachine},
};

use super::{
    codec,
    log_store::LogStore,
    snapshot::SnapshotBuilder,
    types::{Applied, Entry, Payload, TypeConfig},
};
use crate::{
    apply::{AppliedLog, Applier, Chunk, Progress, Report, Rows},
    change_feed::ChangeFeed,
    identity::Identity,
    storage::{
        checkpoint::{SnapshotDir, Snapshots},
        data_dir::DataDir,
        purge_gate::PurgeGate,
        state_db::StateDb,
    },
    traces::Passage,
};

/// openraft over this state machine.
pub(super) type Raft = openraft::Raft<TypeConfig, StateMachine>;

type Responder = Option<ApplyResponder<TypeConfig>>;

/// The rows, as openraft sees them.
pub struct StateMachine {
    rows: Arc<Rows>,
    snapshots: Arc<Snapshots>,
    log: LogStore,
    gate: PurgeGate,
    applier: Applier,
    report: Arc<Report>,
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
        (log, gate): (LogStore, PurgeGate),
        feed: ChangeFeed,
    ) -> io::Result<Self> {
        state.sync().map_err(io::Error::other)?;
        let rows = Arc::new(Rows::new(state, identity, data_dir, feed));
        rows.note_name()?;
        let progress = rows.progress()?;
        rows.feed.begin_after(progress.index);
        gate.advance(progress.index);
        let report = Arc::new(Report::new(progress));
        let applier = Applier::start(Arc::clone(&rows), Arc::clone(&report))?;
        Ok(Self {
            rows,
            snapshots,
            log,
            gate,
            applier,
            report,
        })
    }

    /// How far entries are applied.
    pub(super) fn applied_log(&self) -> AppliedLog {
        AppliedLog::of(&self.applier, &self.report)
    }

    async fn apply_chunk(
        &mut self,
        mut chunk: Chunk,
        responders: Vec<Responder>,
    ) -> io::Result<()> {
        let Some(last) = chunk.last_index() else {
            return Ok(());
        };
        // Rows that are ahead of the durable log could survive a crash that the entries do not.
        if !planted::is(Plant::ApplyBeforeDurable) {
            self.log.durable(last).await.map_err(io::Error::other)?;
        }
        let passages = mem::take(&mut chunk.passages);
        for passage in &passages {
            // The log's word of it may come a moment later.
            passage.durable();
            passage.applying();
        }
        let outcomes = self.applier.apply(chunk).await?;
        passages.iter().for_each(Passage::applied);
        for (responder, outcome) in responders.into_iter().zip(outcomes) {
            if let Some(responder) = responder {
                responder.send(Applied(outcome));
            }
        }
        Ok(())
    }
}

impl Chunk {
    pub(crate) fn push(&mut self, entry: Entry) {
        let log_id = codec::log_id_to_proto(&entry.log_id);
        match entry.payload {
            Payload::Normal(proposal) => {
                if proposal.passage.is_noted() {
                    self.passages.push(proposal.passage);
                }
                self.add(log_id, proposal.command, None);
            }
            Payload::Blank => self.add(log_id, Bytes::new(), None),
            Payload::Membership(membership) => {
                let membership = codec::membership_to_proto(&membership);
                self.add(log_id, Bytes::new(), Some(membership));
            }
        }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<TypeConfig>>, StoredMembershipOf<TypeConfig>)> {
        self.applier.settle().await?;
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
        let mut responders = Vec::new();
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            chunk.push(entry);
            responders.push(responder);
            // Whatever is ready goes together; nothing lingers for more.
            while !chunk.is_full() {
                let Some(Some(next)) = entries.next().now_or_never() else {
                    break;
                };
                let (entry, responder) = next?;
                chunk.push(entry);
                responders.push(responder);
            }
            let full = mem::take(&mut chunk);
            self.apply_chunk(full, mem::take(&mut responders)).await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        // Consensus expects all that was applied in it.
        if let Err(error) = self.applier.settle().await {
            // The node ends for it. A snapshot of what is there is no lie.
            tracing::error!(%error, "a snapshot is taken of rows that are not written any further");
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
        // Nor may rows that were applied before.
        self.applier.settle().await?;
        let rows = Arc::clone(&self.rows);
        let snapshots = Arc::clone(&self.snapshots);
        let installed = tokio::task::spawn_blocking(move || -> io::Result<Progress> {
            rows.state.install(&snapshot).map_err(io::Error::other)?;
            snapshots.publish(&snapshot).map_err(io::Error::other)?;
            rows.note_name()?;
            let progress = rows.progress()?;
            rows.feed.begin_after(progress.index);
            Ok(progress)
        });
        let progress = installed.await.map_err(io::Error::other)??;
        if Some(progress.index) != meta.last_log_id.as_ref().map(|id| id.index) {
            return Err(io::Error::other(
                "the snapshot does not hold what its manifest says",
            ));
        }
        self.gate.advance(progress.index);
        let repaired_rows = self.report.last().repaired_rows;
        self.report.note(Progress {
            repaired_rows,
            ..progress
        });
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

#[cfg(test)]
mod tests;
