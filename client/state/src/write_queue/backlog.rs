//! What the journal's entries add up to.

use std::collections::BTreeMap;

use prost::Message as _;

use super::entry::{Entry, Outcome, QueuedWrite, Reported, Sent, Settled, Step, Withdrawn};

/// All writes that are not done with, by number.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    writes: BTreeMap<u64, Write>,
    next: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) queued: QueuedWrite,
    pub(super) sent: Option<Sent>,
    pub(super) settled: Option<Settled>,
    is_reported: bool,
}

impl Backlog {
    pub(super) fn of(entries: Vec<Entry>) -> Self {
        let mut backlog = Self::default();
        for Entry { number, step } in entries {
            if let Some(step) = step {
                backlog.note(number, step);
            }
        }
        backlog.forget();
        backlog
    }

    /// Takes a step that is in the journal.
    pub(super) fn note(&mut self, number: u64, step: Step) {
        self.next = self.next.max(number + 1);
        match step {
            Step::Queued(queued) => {
                let write = Write {
                    queued,
                    sent: None,
                    settled: None,
                    is_reported: false,
                };
                self.writes.insert(number, write);
            }
            Step::Sent(sent) => self.with(number, |write| write.sent = Some(sent)),
            Step::Settled(settled) => self.with(number, |write| write.settled = Some(settled)),
            Step::Withdrawn(Withdrawn {}) => self.with(number, |write| write.sent = None),
            Step::Reported(Reported {}) => self.with(number, |write| write.is_reported = true),
        }
    }

    fn with(&mut self, number: u64, change: impl FnOnce(&mut Write)) {
        if let Some(write) = self.writes.get_mut(&number) {
            change(write);
        }
    }

    /// Numbers begin at 1, and none is given twice while the journal holds anything.
    pub(super) fn next(&self) -> u64 {
        self.next.max(1)
    }

    /// The first write that is not done with.
    pub(super) fn first(&self) -> Option<(u64, &Write)> {
        let mut open = self.writes.iter().filter(|(_, write)| !write.is_reported);
        open.next().map(|(number, write)| (*number, write))
    }

    /// How many are not settled.
    pub(super) fn waiting(&self) -> usize {
        self.writes
            .values()
            .filter(|write| write.settled.is_none())
            .count()
    }

    pub(super) fn bytes(&self) -> usize {
        self.writes
            .values()
            .map(|write| write.queued.encoded_len())
            .sum()
    }

    /// The last write to this key that waits.
    pub(super) fn last_of(&self, name: (&str, &str)) -> Option<u64> {
        let mut writes = self.writes.iter().rev();
        let last = writes.find(|(_, write)| write.settled.is_none() && write.queued.name() == name);
        last.map(|(number, _)| *number)
    }

    /// The revision that a write got, if it was applied.
    pub(super) fn revision_of(&self, number: u64) -> Option<u64> {
        let settled = self.writes.get(&number)?.settled.as_ref()?;
        (settled.outcome() == Outcome::Applied).then_some(settled.revision)
    }

    /// Drops what is done with, but for those whose revision others wait for.
    pub(super) fn forget(&mut self) {
        let open = self.writes.values().filter(|write| write.settled.is_none());
        let wanted: Vec<u64> = open.filter_map(|write| write.queued.after).collect();
        self.writes
            .retain(|number, write| !write.is_reported || wanted.contains(number));
    }

    /// The entries that say the same.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (&number, write) in &self.writes {
            let steps = [
                Some(Step::Queued(write.queued.clone())),
                write.sent.clone().map(Step::Sent),
                write.settled.clone().map(Step::Settled),
                write.is_reported.then_some(Step::Reported(Reported {})),
            ];
            let entry = |step| Entry {
                number,
                step: Some(step),
            };
            entries.extend(steps.into_iter().flatten().map(entry));
        }
        entries
    }
}
