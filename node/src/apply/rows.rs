//! The rows, as the apply thread works on them.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, RecordChange, Repairs, View,
    planted::{self, Plant},
};
use helve_proto::{
    command::v1::{Outcome, outcome::Outcome as Kind},
    peer::v1 as proto,
};

use super::{
    Milestones, Progress, Unapplied,
    apply_queue::{Done, Linger, Work},
    chunk::{Begun, Unwritten, is_callers_alone, is_much_removed},
    progress::Report,
};
use crate::{
    change_feed::ChangeFeed,
    failpoint::{self, Failpoint},
    identity::Identity,
    limits::GROUP_ID,
    storage::{data_dir::DataDir, state_db::StateDb, writer_view::WriterView},
};

/// What the apply thread works on.
pub(crate) struct Rows {
    pub(crate) state: Arc<StateDb>,
    identity: Arc<Identity>,
    data_dir: Arc<Mutex<DataDir>>,
    /// Where callers that watch look.
    pub(crate) feed: ChangeFeed,
}

/// What entries come to, to be written as one.
struct WorkedOut {
    rows: Vec<(Bytes, Option<Bytes>)>,
    last: proto::LogId,
    membership: Option<proto::StoredMembership>,
    progress: Progress,
}

impl Rows {
    pub(crate) fn new(
        state: Arc<StateDb>,
        identity: Arc<Identity>,
        data_dir: Arc<Mutex<DataDir>>,
        feed: ChangeFeed,
    ) -> Self {
        Self {
            state,
            identity,
            data_dir,
            feed,
        }
    }

    pub(crate) fn progress(&self) -> io::Result<Progress> {
        self.state.read(|view| {
            let applied = view.applied().map_err(io::Error::other)?;
            let index = applied.map_or(0, |id| id.index);
            let next_deadline_ms = helve_machine::next_deadline(view, GROUP_ID);
            let next_deadline_ms = next_deadline_ms.map_err(io::Error::other)?;
            progress(index, view, next_deadline_ms).map_err(io::Error::other)
        })
    }

    /// Applies entries, and those that follow as long as their rows linger, and writes what they come to as one, or as several if they
    /// remove many rows. Callers that wait for outcomes are told before that only if the rows may linger, and the node itself does not act
    /// on what an entry changes.
    pub(super) fn apply(
        &self,
        first: Work,
        report: &Report,
        mut linger: impl Linger,
    ) -> io::Result<()> {
        let mut next = Some(Begun::new(first).map_err(refuse)?);
        while let Some(begun) = next {
            let mut held = Held::NoCaller;
            let written = match self.work_out(begun, report, &mut linger, &mut held) {
                Ok(Some(worked_out)) => self.write(worked_out, report),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            next = held.tell(&written);
            written?;
        }
        Ok(())
    }

    /// What is to be written; nothing, if there was no entry. `held` is whom to tell once it is written.
    fn work_out(
        &self,
        first: Begun,
        report: &Report,
        linger: &mut impl Linger,
        held: &mut Held,
    ) -> io::Result<Option<WorkedOut>> {
        let mut unwritten = Unwritten::default();
        self.state.read_to_write(|view| {
            let mut batch = Batch::new(view);
            let mut next = Some(first);
            while let Some(mut begun) = next {
                let planned = self.plan(&mut begun, view, &mut batch);
                unwritten.add(&mut begun, batch.removed_rows());
                let can_wait = match planned {
                    Ok(can_wait) => can_wait,
                    Err(error) => {
                        *held = Held::Told(begun.done, Vec::new());
                        return Err(error);
                    }
                };
                if !begun.is_whole() {
                    *held = Held::Begun(begun);
                    break;
                }
                let Begun { done, outcomes, .. } = begun;
                if !can_wait || !linger.may() {
                    *held = Held::Told(done, outcomes);
                    break;
                }
                report.note_applied(&unwritten);
                let _ = done.send(Ok(outcomes));
                let more = (!unwritten.is_full()).then(|| linger.next()).flatten();
                next = more.map(Begun::new).transpose().map_err(refuse)?;
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

    /// Applies the entries that are not applied yet, until many rows were removed. Answers whether all their rows can wait.
    fn plan(
        &self,
        begun: &mut Begun,
        view: &WriterView<'_>,
        batch: &mut Batch<impl View>,
    ) -> io::Result<bool> {
        if begun.outcomes.is_empty() && view.pays_to_read_ahead() {
            let commands = begun.commands.iter().filter_map(|(_, c)| c.as_ref());
            let keys = helve_machine::records_ahead(GROUP_ID, commands, batch);
            view.read_ahead(&keys.map_err(io::Error::other)?)
                .map_err(io::Error::other)?;
        }
        let left = begun.commands.len() - begun.outcomes.len();
        view.noting_waits(left, || self.outcomes(begun, batch))?;
        Ok(is_callers_alone(&begun.commands) && !planted::is(Plant::ApplyBeforeDurable))
    }

    /// Adds one outcome for each command.
    fn outcomes(&self, begun: &mut Begun, batch: &mut Batch<impl View>) -> io::Result<()> {
        let Begun {
            commands, outcomes, ..
        } = begun;
        let mut applied = Applied::of(&self.feed);
        for (index, command) in &commands[outcomes.len()..] {
            let index = *index;
            let Some(command) = command else {
                outcomes.push(Outcome::default());
                applied.head = index;
                continue;
            };
            let context = Context {
                group_id: GROUP_ID,
                index,
            };
            let outcome = helve_machine::apply(&context, command, batch);
            let outcome = outcome.map_err(|fault| io::Error::other(Unapplied { index, fault }))?;
            self.note(&outcome)?;
            outcomes.push(outcome);
            applied.head = index;
            let changes = batch.take_changes();
            if !changes.is_empty() {
                applied.changes.push((index, changes));
            }
            if is_much_removed(batch.removed_rows()) {
                break;
            }
        }
        Ok(())
    }

    /// The cluster's name is also kept where a start finds it before any row.
    fn note(&self, outcome: &Outcome) -> io::Result<()> {
        if let Some(Kind::SetClusterId(set)) = &outcome.outcome {
            self.name_cluster(set.cluster_id.clone())?;
        }
        Ok(())
    }

    /// What the rows say of the cluster's name goes to the data directory, which a crash may have kept from hearing it.
    pub(crate) fn note_name(&self) -> io::Result<()> {
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

/// What entries changed that were applied. Those who watch are told when this is dropped: the entries are committed, also where
/// their rows are written later or a later entry cannot be applied.
struct Applied<'a> {
    feed: &'a ChangeFeed,
    changes: Vec<(u64, Vec<RecordChange>)>,
    head: u64,
}

impl<'a> Applied<'a> {
    fn of(feed: &'a ChangeFeed) -> Self {
        Self {
            feed,
            changes: Vec::new(),
            head: 0,
        }
    }
}

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        if self.head > 0 {
            self.feed.push(std::mem::take(&mut self.changes), self.head);
        }
    }
}

/// Whom to tell once rows are written.
enum Held {
    NoCaller,
    Told(Done, Vec<Outcome>),
    /// No caller yet: the rest of its entries comes next.
    Begun(Begun),
}

impl Held {
    /// Tells what was written, or why it was not. Answers what is to be gone on with.
    fn tell(self, written: &io::Result<()>) -> Option<Begun> {
        let (done, outcomes) = match self {
            Self::NoCaller => return None,
            Self::Begun(begun) if written.is_ok() => return Some(begun),
            Self::Begun(begun) => (begun.done, Vec::new()),
            Self::Told(done, outcomes) => (done, outcomes),
        };
        let told = match written {
            Ok(()) => Ok(outcomes),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        // The receiver is gone only when consensus has stopped.
        let _ = done.send(told);
        None
    }
}

/// Tells who waits for entries that they cannot be read.
fn refuse((done, error): (Done, io::Error)) -> io::Error {
    let told = io::Error::other(error.to_string());
    let _ = done.send(Err(told));
    error
}

impl WorkedOut {
    /// `None` if there was no entry.
    fn new<V: View>(
        mut batch: Batch<V>,
        unwritten: Unwritten,
        before: Progress,
    ) -> Result<Option<Self>, Fault> {
        let Some(last) = unwritten.last else {
            return Ok(None);
        };
        let next_deadline_ms = batch.next_deadline(GROUP_ID, before.milestones.next_deadline_ms)?;
        let progress = progress(last.index, &batch, next_deadline_ms)?;
        let repairs = batch.take_repairs();
        report_repairs(last.index, &repairs);
        let progress = Progress {
            repaired_rows: before.repaired_rows + repairs.count,
            ..progress
        };
        Ok(Some(Self {
            rows: batch.finish()?,
            last,
            membership: unwritten.membership,
            progress,
        }))
    }
}

/// Every node puts the same rows right at the same entry, and says so.
fn report_repairs(index: u64, repairs: &Repairs) {
    for repair in &repairs.described {
        tracing::error!(
            index,
            rows = repair.what,
            tenant = repair.tenant,
            was = repair.was,
            is = repair.is,
            "a derived row contradicted the rows it is derived from and was worked out again: nothing is lost, but please report this"
        );
    }
    let others = repairs.count - repairs.described.len() as u64;
    if others > 0 {
        tracing::error!(index, others, "further derived rows were worked out again");
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
        repaired_rows: 0,
        milestones: Milestones {
            next_deadline_ms,
            sealing_state: sealing.map_or(0, |row| {
                4 * row.index + 2 * u64::from(row.done) + u64::from(row.complete_index > 0)
            }),
        },
    })
}

#[cfg(test)]
mod tests;
