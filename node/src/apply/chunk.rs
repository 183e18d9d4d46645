//! Entries that are applied together.

use std::io;

use bytes::Bytes;
use helve_machine::planted::{self, Plant};
use helve_proto::{
    command::v1::{Command, Outcome, outcome::Outcome as Kind},
    operations::About,
    peer::v1 as proto,
    v1::{RecordInfo, transact_reply::Result as Transacted},
};
use prost::Message;

use super::apply_queue::{Done, Work};
use crate::{
    limits::{APPLY_BYTES_MAX, APPLY_ENTRIES_MAX},
    stamp,
    storage::error::StorageError,
    traces::Passage,
};

/// Entries that were committed together.
#[derive(Default)]
pub(crate) struct Chunk {
    commands: Vec<(proto::LogId, Bytes)>,
    /// Memberships, and which of the entries hold them.
    memberships: Vec<(usize, proto::StoredMembership)>,
    bytes: usize,
    /// What notes the way of those whose traces are recorded.
    pub(crate) passages: Vec<Passage>,
}

/// The index of an entry, and its command if it has one.
pub(super) type Numbered = (u64, Option<Command>);

/// Work of which some entries are applied. What follows waits if applying them removed enough rows for these to be written first.
pub(super) struct Begun {
    chunk: Chunk,
    pub(super) done: Done,
    pub(super) commands: Vec<Numbered>,
    /// Of the entries that are applied.
    pub(super) outcomes: Vec<Outcome>,
    /// Entries that are among those that are written, or were.
    counted: usize,
}

/// Entries that are applied, and whose rows are not written yet.
#[derive(Default)]
pub(super) struct Unwritten {
    pub(super) last: Option<proto::LogId>,
    pub(super) membership: Option<proto::StoredMembership>,
    entries: usize,
    removed_rows: usize,
    bytes: usize,
}

impl Chunk {
    pub(crate) fn is_full(&self) -> bool {
        is_enough(self.commands.len(), self.bytes)
    }

    pub(crate) fn last_index(&self) -> Option<u64> {
        self.commands.last().map(|(id, _)| id.index)
    }

    /// Adds an entry: its command, empty if it has none, or the membership that it sets.
    pub(crate) fn add(
        &mut self,
        log_id: proto::LogId,
        command: Bytes,
        membership: Option<proto::Membership>,
    ) {
        if let Some(membership) = membership {
            let stored = proto::StoredMembership {
                log_id: Some(log_id),
                membership: Some(membership),
            };
            self.memberships.push((self.commands.len(), stored));
        }
        self.bytes += command.len();
        self.commands.push((log_id, command));
    }

    fn decoded(&self) -> io::Result<Vec<Numbered>> {
        let decode = |(log_id, bytes): &(proto::LogId, Bytes)| {
            let index = log_id.index;
            if bytes.is_empty() {
                return Ok((index, None));
            }
            let mut command = Command::decode(bytes.clone()).map_err(|error| {
                StorageError::unreadable(format!("the command of log entry {index}"), &error)
            })?;
            if planted::is(Plant::LocalClock) {
                command.proposed_at_ms = stamp::wall_ms();
            }
            Ok((index, Some(command)))
        };
        self.commands.iter().map(decode).collect()
    }
}

impl Begun {
    pub(super) fn new(work: Work) -> Result<Self, (Done, io::Error)> {
        let Work { chunk, done } = work;
        match chunk.decoded() {
            Ok(commands) => Ok(Self {
                outcomes: Vec::with_capacity(commands.len()),
                commands,
                chunk,
                done,
                counted: 0,
            }),
            Err(error) => Err((done, error)),
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.outcomes.len() == self.commands.len()
    }
}

impl Unwritten {
    /// Some of its entries were applied since it was added last, and the batch has removed that many rows by now.
    pub(super) fn add(&mut self, begun: &mut Begun, removed_rows: usize) {
        let added = begun.counted..begun.outcomes.len();
        begun.counted = added.end;
        let commands = &begun.chunk.commands[added.clone()];
        self.entries += commands.len();
        self.removed_rows = removed_rows;
        let carried = commands.iter().map(|(_, command)| command.len());
        let written = begun.outcomes[added.clone()].iter().map(values_written);
        self.bytes += carried.chain(written).sum::<usize>();
        if let Some((last, _)) = commands.last() {
            self.last = Some(*last);
        }
        let memberships = begun.chunk.memberships.iter().rev();
        let mut memberships = memberships.filter(|(at, _)| added.contains(at));
        if let Some((_, membership)) = memberships.next() {
            self.membership = Some(membership.clone());
        }
    }

    /// A row that was removed costs about as much as an entry.
    pub(super) fn is_full(&self) -> bool {
        is_enough(self.entries + self.removed_rows, self.bytes)
    }
}

/// Whether enough rows were removed for them to be written before further entries are applied.
pub(super) const fn is_much_removed(rows: usize) -> bool {
    rows >= APPLY_ENTRIES_MAX
}

/// Whether no more is to be written at once.
const fn is_enough(entries: usize, bytes: usize) -> bool {
    entries >= APPLY_ENTRIES_MAX || bytes >= APPLY_BYTES_MAX
}

/// Bytes of values that a command writes, but does not contain: what it hands out is kept for a repeat, and a renewed record is written
/// again.
fn values_written(outcome: &Outcome) -> usize {
    let of = |info: &Option<RecordInfo>| {
        let bytes = info.as_ref().map_or(0, |info| info.value_bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    };
    match &outcome.outcome {
        Some(Kind::Take(reply)) => reply.value.len(),
        Some(Kind::Claim(reply)) => reply.value.len(),
        Some(Kind::Renew(reply)) => of(&reply.info),
        Some(Kind::Transact(reply)) => match &reply.result {
            Some(Transacted::Committed(done)) => done
                .replies
                .iter()
                .map(|r| r.value.len().max(of(&r.info)))
                .sum(),
            _ => 0,
        },
        _ => 0,
    }
}

/// Whether these are callers' commands on handles and keys. All others are about what the node itself acts on (Ticks, Touches, members,
/// levels, data keys, tokens), which it must find when it hears of it. The clock and the next deadline, which callers' commands move as
/// well, it may learn of a moment later.
pub(super) fn is_callers_alone(commands: &[Numbered]) -> bool {
    let is_callers = |(_, command): &Numbered| {
        let operation = command.as_ref().and_then(|it| it.operation.as_ref());
        operation.is_some_and(|operation| operation.facts().about == About::Records)
    };
    !commands.is_empty() && commands.iter().all(is_callers)
}
