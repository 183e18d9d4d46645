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
    command::v1::{Outcome, outcome::Outcome as Kind},
    peer::v1 as proto,
};

use super::{
    Milestones, Progress,
    apply_queue::{Done, Linger, Work},
    chunk::{Chunk, Numbered, Unwritten, is_callers_alone},
    progress::Report,
};
use crate::{
    failpoint::{self, Failpoint},
    limits::GROUP_ID,
    raft::identity::Identity,
    storage::{data_dir::DataDir, recent_rows::WriterView, state_db::StateDb},
};

/// What the apply thread works on.
pub(super) struct Rows {
    pub(super) state: Arc<StateDb>,
    identity: Arc<Identity>,
    data_dir: Arc<Mutex<DataDir>>,
}

/// What entries come to, to be written as one.
struct WorkedOut {
    rows: Vec<(Bytes, Option<Bytes>)>,
    last: proto::LogId,
    membership: Option<proto::StoredMembership>,
    progress: Progress,
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

    /// Applies entries, and those that follow as long as their rows linger, and writes what they come to as one. Whoever waits for outcomes
    /// is told before that only if the rows may linger, and the node itself does not act on what an entry changes.
    pub(super) fn apply(
        &self,
        first: Work,
        report: &Report,
        linger: impl Linger,
    ) -> io::Result<()> {
        let mut held = None;
        let written = match self.work_out(first, report, linger, &mut held) {
            Ok(Some(worked_out)) => self.write(worked_out, report),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Some((done, outcomes)) = held {
            let told = match &written {
                Ok(()) => Ok(outcomes),
                Err(error) => Err(io::Error::other(error.to_string())),
            };
            // Nobody waits for it only when consensus has stopped.
            let _ = done.send(told);
        }
        written
    }

    /// What is to be written; nothing, if there was no entry. `held` is whom to tell once it is written.
    fn work_out(
        &self,
        first: Work,
        report: &Report,
        mut linger: impl Linger,
        held: &mut Option<(Done, Vec<Outcome>)>,
    ) -> io::Result<Option<WorkedOut>> {
        let mut unwritten = Unwritten::default();
        self.state.read_to_write(|view| {
            let mut batch = Batch::new(view);
            let mut next = Some(first);
            while let Some(Work { chunk, done }) = next {
                let (outcomes, can_wait) = match self.plan(&chunk, view, &mut batch) {
                    Ok(planned) => planned,
                    Err(error) => {
                        *held = Some((done, Vec::new()));
                        return Err(error);
                    }
                };
                unwritten.add(chunk, &outcomes);
                if !can_wait || !linger.may() {
                    *held = Some((done, outcomes));
                    break;
                }
                report.note_applied(&unwritten);
                let _ = done.send(Ok(outcomes));
                next = if unwritten.is_full() {
                    None
                } else {
                    linger.next()
                };
            }
            WorkedOut::new(batch, unwritten, report.last()).map_err(io::Error::other)
        })
    }

    fn write(&self, worked_out: WorkedOut, report: &Report) -> io::Result<()> {
        let WorkedOut {
            rows,
            last,
            membership,
            progress,
        } = worked_out;
        failpoint::check(Failpoint::ApplyBeforeWrite).map_err(io::Error::other)?;
        let written = self.state.write(rows, &last, membership.as_ref());
        written.map_err(io::Error::other)?;
        let before = report.last();
        // A node that starts must not live through the keys and levels of the past again: it would miss a key that was rightly removed.
        let is_turn = before.milestones.sealing_state != progress.milestones.sealing_state
            || before.feature_level != progress.feature_level;
        // With that bug a crash must find the rows on disk: a memtable may be flushed at any time.
        if is_turn || planted::is(Plant::ApplyBeforeDurable) {
            self.state.sync().map_err(io::Error::other)?;
        }
        failpoint::pass(Failpoint::ApplyAfterWrite);
        if is_joint(membership.as_ref()) {
            failpoint::pass(Failpoint::JointApplied);
        }
        report.note(progress);
        Ok(())
    }

    /// What entries come to, and whether their rows can wait.
    fn plan(
        &self,
        chunk: &Chunk,
        view: &WriterView<'_>,
        batch: &mut Batch<impl View>,
    ) -> io::Result<(Vec<Outcome>, bool)> {
        let commands = chunk.decoded()?;
        if view.pays_to_read_ahead() {
            let commands = commands.iter().filter_map(|(_, command)| command.as_ref());
            let keys = helve_machine::records_ahead(GROUP_ID, commands, batch);
            view.read_ahead(keys.map_err(io::Error::other)?)
                .map_err(io::Error::other)?;
        }
        let outcomes = view.noting_waits(commands.len(), || self.outcomes(&commands, batch))?;
        let can_wait = is_callers_alone(&commands) && !planted::is(Plant::ApplyBeforeDurable);
        Ok((outcomes, can_wait))
    }

    /// One outcome for each command.
    fn outcomes(
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

impl WorkedOut {
    /// `None` if there was no entry.
    fn new<V: View>(
        batch: Batch<V>,
        unwritten: Unwritten,
        before: Progress,
    ) -> Result<Option<Self>, Fault> {
        let Some(last) = unwritten.last else {
            return Ok(None);
        };
        let next_deadline_ms = batch.next_deadline(GROUP_ID, before.milestones.next_deadline_ms)?;
        let progress = progress(last.index, &batch, next_deadline_ms)?;
        Ok(Some(Self {
            rows: batch.finish()?,
            last,
            membership: unwritten.membership,
            progress,
        }))
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
        feature_level: helve_machine::feature_level(view, GROUP_ID)?,
        milestones: Milestones {
            next_deadline_ms,
            sealing_state: sealing.map_or(0, |row| 2 * row.index + u64::from(row.done)),
        },
    })
}

#[cfg(test)]
mod tests;
