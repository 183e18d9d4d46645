//! Committed entries become rows: in batches, each one write, never ahead of the durable log.
//!
//! Entries are applied on a thread of their own, so that a write that the storage engine stalls delays no heartbeat.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc as blocking},
    thread,
};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt};
use helve_machine::{
    Batch, Context, Fault, View,
    planted::{self, Plant},
};
use helve_proto::{
    command::v1::{Command, Outcome, outcome::Outcome as Kind},
    peer::v1 as proto,
};
use openraft::{
    OptionalSend,
    alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf},
    storage::{ApplyResponder, EntryResponder, RaftStateMachine},
};
use prost::Message;
use tokio::sync::{oneshot, watch};

use super::{
    codec,
    identity::Identity,
    log_store::{LogStore, PurgeGate},
    snapshot::SnapshotBuilder,
    types::{Applied, Payload, TypeConfig},
};
use crate::{
    failpoint::{self, Failpoint},
    limits::{APPLY_BYTES_MAX, APPLY_ENTRIES_MAX, GROUP_ID},
    stamp,
    storage::{
        checkpoint::{SnapshotDir, Snapshots},
        data_dir::DataDir,
        state_db::StateDb,
    },
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

type Responder = Option<ApplyResponder<TypeConfig>>;

#[derive(Default)]
struct Chunk {
    commands: Vec<(u64, Bytes)>,
    last: Option<proto::LogId>,
    membership: Option<proto::StoredMembership>,
    bytes: usize,
    entries: usize,
}

struct Work {
    chunk: Chunk,
    /// When the first row is due that stands before the chunk is applied.
    next_deadline_ms: Option<u64>,
    done: oneshot::Sender<io::Result<(Vec<Outcome>, Progress)>>,
}

/// The rows, as openraft sees them.
pub struct StateMachine {
    rows: Arc<Rows>,
    snapshots: Arc<Snapshots>,
    log: LogStore,
    gate: PurgeGate,
    applier: blocking::Sender<Work>,
    applied: watch::Sender<Progress>,
}

/// What the apply thread works on.
struct Rows {
    state: Arc<StateDb>,
    identity: Arc<Identity>,
    data_dir: Arc<Mutex<DataDir>>,
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
        let rows = Arc::new(Rows {
            state,
            identity,
            data_dir,
        });
        rows.note_name()?;
        let progress = rows.progress()?;
        gate.advance(progress.index);
        let (applier, work) = blocking::channel::<Work>();
        let worker = Arc::clone(&rows);
        thread::Builder::new()
            .name("helve-apply".to_owned())
            .spawn(move || {
                while let Ok(work) = work.recv() {
                    let applied = worker.apply(work.chunk, work.next_deadline_ms);
                    // Nobody waits for it only when consensus has stopped.
                    let _ = work.done.send(applied);
                }
            })?;
        let applied = watch::Sender::new(progress);
        Ok(Self {
            rows,
            snapshots,
            log,
            gate,
            applier,
            applied,
        })
    }

    /// What has been applied; changes with every batch.
    #[must_use]
    pub fn applied(&self) -> watch::Receiver<Progress> {
        self.applied.subscribe()
    }

    async fn apply_chunk(&mut self, chunk: Chunk, responders: Vec<Responder>) -> io::Result<()> {
        let Some(last) = chunk.last.as_ref().map(|id| id.index) else {
            return Ok(());
        };
        // Rows that are ahead of the durable log could survive a crash that the entries do not.
        if !planted::is(Plant::ApplyBeforeDurable) {
            self.log.durable(last).await.map_err(io::Error::other)?;
        }
        let (done, outcomes) = oneshot::channel();
        let gone = || io::Error::other("the apply thread stopped");
        let work = Work {
            chunk,
            next_deadline_ms: self.applied.borrow().next_deadline_ms,
            done,
        };
        self.applier.send(work).map_err(|_| gone())?;
        let (outcomes, progress) = outcomes.await.map_err(|_| gone())??;
        self.applied.send_replace(progress);
        for (responder, outcome) in responders.into_iter().zip(outcomes) {
            if let Some(responder) = responder {
                responder.send(Applied(outcome));
            }
        }
        Ok(())
    }
}

impl Rows {
    fn progress(&self) -> io::Result<Progress> {
        self.state.read(|view| {
            let applied = view.applied().map_err(io::Error::other)?;
            let index = applied.map_or(0, |id| id.index);
            let next_deadline_ms = helve_machine::next_deadline(view, GROUP_ID);
            let next_deadline_ms = next_deadline_ms.map_err(io::Error::other)?;
            progress(index, view, next_deadline_ms).map_err(io::Error::other)
        })
    }

    /// One chunk, one write. Outcomes are one for each entry; those without a command have the default one.
    fn apply(
        &self,
        chunk: Chunk,
        next_deadline_ms: Option<u64>,
    ) -> io::Result<(Vec<Outcome>, Progress)> {
        let Some(last) = chunk.last else {
            return Ok((Vec::new(), self.progress()?));
        };
        let mut outcomes = Vec::with_capacity(chunk.entries);
        let (rows, progress) = self.state.read_to_write(|view| -> io::Result<_> {
            let mut batch = Batch::new(view);
            for (index, command) in chunk.commands {
                if command.is_empty() {
                    outcomes.push(Outcome::default());
                    continue;
                }
                let mut command = Command::decode(command).map_err(io::Error::other)?;
                if planted::is(Plant::LocalClock) {
                    command.proposed_at_ms = stamp::wall_ms();
                }
                let context = Context {
                    group_id: GROUP_ID,
                    index,
                };
                let outcome = helve_machine::apply(&context, &command, &mut batch);
                let outcome = outcome.map_err(io::Error::other)?;
                self.note(&outcome)?;
                outcomes.push(outcome);
            }
            let next_deadline_ms = batch.next_deadline(GROUP_ID, next_deadline_ms);
            let next_deadline_ms = next_deadline_ms.map_err(io::Error::other)?;
            let progress = progress(last.index, &batch, next_deadline_ms);
            let progress = progress.map_err(io::Error::other)?;
            Ok((batch.finish().map_err(io::Error::other)?, progress))
        })?;
        failpoint::pass(Failpoint::ApplyBeforeWrite);
        let written = self.state.write(rows, &last, chunk.membership.as_ref());
        written.map_err(io::Error::other)?;
        failpoint::pass(Failpoint::ApplyAfterWrite);
        if is_joint(chunk.membership.as_ref()) {
            failpoint::pass(Failpoint::JointApplied);
        }
        Ok((outcomes, progress))
    }

    /// The cluster's name is also kept where a start finds it before any row.
    fn note(&self, outcome: &Outcome) -> io::Result<()> {
        if let Some(Kind::SetClusterId(set)) = &outcome.outcome {
            self.name_cluster(set.cluster_id.clone())?;
        }
        Ok(())
    }

    /// What the rows say of the cluster's name goes to the data directory, which a crash may have kept from hearing it.
    fn note_name(&self) -> io::Result<()> {
        let name = self
            .state
            .read(|view| helve_machine::cluster_id(view, GROUP_ID));
        match name.map_err(io::Error::other)? {
            Some(cluster_id) => self.name_cluster(cluster_id),
            None => Ok(()),
        }
    }

    fn name_cluster(&self, cluster_id: String) -> io::Result<()> {
        let mut data_dir = self.data_dir.lock().unwrap_or_else(PoisonError::into_inner);
        if data_dir.identity().cluster_id == cluster_id {
            return Ok(());
        }
        let assigned = data_dir.assign(self.identity.node_id(), &cluster_id);
        assigned.map_err(io::Error::other)?;
        self.identity.set_cluster_id(cluster_id);
        Ok(())
    }
}

/// In the middle of a change of members: both the old voters and the new ones have to agree.
fn is_joint(stored: Option<&proto::StoredMembership>) -> bool {
    let membership = stored.and_then(|stored| stored.membership.as_ref());
    membership.is_some_and(|membership| membership.configs.len() > 1)
}

fn progress(
    index: u64,
    view: &impl View,
    next_deadline_ms: Option<u64>,
) -> Result<Progress, Fault> {
    let sealing = helve_machine::sealing::sealing(view, GROUP_ID)?;
    Ok(Progress {
        index,
        clock_ms: helve_machine::clock(view, GROUP_ID)?,
        next_deadline_ms,
        feature_level: helve_machine::feature_level(view, GROUP_ID)?,
        sealing_state: sealing.map_or(0, |row| 2 * row.index + u64::from(row.done)),
    })
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.entries >= APPLY_ENTRIES_MAX || self.bytes >= APPLY_BYTES_MAX
    }

    fn push(&mut self, entry: super::types::Entry) {
        self.entries += 1;
        let log_id = codec::log_id_to_proto(&entry.log_id);
        let index = log_id.index;
        let command = match entry.payload {
            Payload::Normal(proposal) => proposal.command,
            Payload::Blank => Bytes::new(),
            Payload::Membership(membership) => {
                self.membership = Some(proto::StoredMembership {
                    log_id: Some(log_id),
                    membership: Some(codec::membership_to_proto(&membership)),
                });
                Bytes::new()
            }
        };
        self.bytes += command.len();
        self.commands.push((index, command));
        self.last = Some(log_id);
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<TypeConfig>>, StoredMembershipOf<TypeConfig>)> {
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
            // Whatever is ready belongs to the same write; nothing lingers for more.
            while !chunk.is_full() {
                let Some(Some(next)) = entries.next().now_or_never() else {
                    break;
                };
                let (entry, responder) = next?;
                chunk.push(entry);
                responders.push(responder);
            }
            let full = std::mem::take(&mut chunk);
            self.apply_chunk(full, std::mem::take(&mut responders))
                .await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
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
