//! The rows, as the apply thread works on them.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, View,
    planted::{self, Plant},
};
use helve_proto::{
    command::v1::{Command, Outcome, outcome::Outcome as Kind},
    peer::v1 as proto,
};
use prost::Message;

use super::{Milestones, Progress};
use crate::{
    failpoint::{self, Failpoint},
    limits::{APPLY_BYTES_MAX, APPLY_ENTRIES_MAX, GROUP_ID},
    raft::{
        codec,
        identity::Identity,
        types::{Entry, Payload},
    },
    stamp,
    storage::{data_dir::DataDir, state_db::StateDb},
};

/// Entries that are applied in one write.
#[derive(Default)]
pub(super) struct Chunk {
    commands: Vec<(u64, Bytes)>,
    pub(super) last: Option<proto::LogId>,
    membership: Option<proto::StoredMembership>,
    bytes: usize,
}

/// The index of an entry, and its command if it has one.
type Numbered = (u64, Option<Command>);

/// What the apply thread works on.
pub(super) struct Rows {
    pub(super) state: Arc<StateDb>,
    identity: Arc<Identity>,
    data_dir: Arc<Mutex<DataDir>>,
}

impl Chunk {
    pub(super) fn is_full(&self) -> bool {
        self.commands.len() >= APPLY_ENTRIES_MAX || self.bytes >= APPLY_BYTES_MAX
    }

    pub(super) fn push(&mut self, entry: Entry) {
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

impl Rows {
    pub(super) fn new(
        state: Arc<StateDb>,
        identity: Arc<Identity>,
        data_dir: Arc<Mutex<DataDir>>,
    ) -> Self {
        Self {
            state,
            identity,
            data_dir,
        }
    }

    pub(super) fn progress(&self) -> io::Result<Progress> {
        self.state.read(|view| {
            let applied = view.applied().map_err(io::Error::other)?;
            let index = applied.map_or(0, |id| id.index);
            let next_deadline_ms = helve_machine::next_deadline(view, GROUP_ID);
            let next_deadline_ms = next_deadline_ms.map_err(io::Error::other)?;
            progress(index, view, next_deadline_ms).map_err(io::Error::other)
        })
    }

    /// One chunk, one write. Outcomes are one for each entry; those without a command have the default one.
    pub(super) fn apply(
        &self,
        chunk: Chunk,
        before: Progress,
    ) -> io::Result<(Vec<Outcome>, Progress)> {
        let Some(last) = chunk.last else {
            return Ok((Vec::new(), self.progress()?));
        };
        let (outcomes, rows, progress) = self.state.read_to_write(|view| -> io::Result<_> {
            let commands = decoded(chunk.commands)?;
            let mut batch = Batch::new(view);
            if view.pays_to_read_ahead() {
                let commands = commands.iter().filter_map(|(_, command)| command.as_ref());
                let keys = helve_machine::records_ahead(GROUP_ID, commands, &mut batch);
                view.read_ahead(keys.map_err(io::Error::other)?)
                    .map_err(io::Error::other)?;
            }
            let outcomes =
                view.noting_waits(commands.len(), || self.plan(&commands, &mut batch))?;
            let next_deadline_ms =
                batch.next_deadline(GROUP_ID, before.milestones.next_deadline_ms);
            let next_deadline_ms = next_deadline_ms.map_err(io::Error::other)?;
            let progress = progress(last.index, &batch, next_deadline_ms);
            let progress = progress.map_err(io::Error::other)?;
            let rows = batch.finish().map_err(io::Error::other)?;
            Ok((outcomes, rows, progress))
        })?;
        failpoint::pass(Failpoint::ApplyBeforeWrite);
        let written = self.state.write(rows, &last, chunk.membership.as_ref());
        written.map_err(io::Error::other)?;
        // A node that starts must not live through the keys and levels of the past again: it would miss a key that was rightly removed.
        let is_turn = before.milestones.sealing_state != progress.milestones.sealing_state
            || before.feature_level != progress.feature_level;
        // With that bug a crash must find the rows on disk: a memtable may be flushed at any time.
        if is_turn || planted::is(Plant::ApplyBeforeDurable) {
            self.state.sync().map_err(io::Error::other)?;
        }
        failpoint::pass(Failpoint::ApplyAfterWrite);
        if is_joint(chunk.membership.as_ref()) {
            failpoint::pass(Failpoint::JointApplied);
        }
        Ok((outcomes, progress))
    }

    /// What the commands come to, one outcome for each.
    fn plan(
        &self,
        commands: &[Numbered],
        batch: &mut Batch<impl View>,
    ) -> io::Result<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(commands.len());
        for (index, command) in commands {
            let Some(command) = command else {
                outcomes.push(Outcome::default());
                continue;
            };
            let context = Context {
                group_id: GROUP_ID,
                index: *index,
            };
            let outcome = helve_machine::apply(&context, command, batch);
            let outcome = outcome.map_err(io::Error::other)?;
            self.note(&outcome)?;
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// The cluster's name is also kept where a start finds it before any row.
    fn note(&self, outcome: &Outcome) -> io::Result<()> {
        if let Some(Kind::SetClusterId(set)) = &outcome.outcome {
            self.name_cluster(set.cluster_id.clone())?;
        }
        Ok(())
    }

    /// What the rows say of the cluster's name goes to the data directory, which a crash may have kept from hearing it.
    pub(super) fn note_name(&self) -> io::Result<()> {
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

fn decoded(commands: Vec<(u64, Bytes)>) -> io::Result<Vec<Numbered>> {
    let decode = |(index, bytes): (u64, Bytes)| {
        if bytes.is_empty() {
            return Ok((index, None));
        }
        let mut command = Command::decode(bytes)?;
        if planted::is(Plant::LocalClock) {
            command.proposed_at_ms = stamp::wall_ms();
        }
        Ok((index, Some(command)))
    };
    let decoded: Result<_, prost::DecodeError> = commands.into_iter().map(decode).collect();
    decoded.map_err(io::Error::other)
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
        feature_level: helve_machine::feature_level(view, GROUP_ID)?,
        milestones: Milestones {
            next_deadline_ms,
            sealing_state: sealing.map_or(0, |row| 2 * row.index + u64::from(row.done)),
        },
    })
}
