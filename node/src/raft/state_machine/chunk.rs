//! Entries that are applied together.

use std::io;

use bytes::Bytes;
use helve_machine::planted::{self, Plant};
use helve_proto::{
    command::v1::{Command, Outcome, command::Operation, outcome::Outcome as Kind},
    peer::v1 as proto,
    v1::{RecordInfo, transact_reply::Result as Transacted},
};
use prost::Message;

use crate::{
    limits::{APPLY_BYTES_MAX, APPLY_ENTRIES_MAX},
    raft::{
        codec,
        types::{Entry, Payload},
    },
    stamp,
};

/// Entries that were committed together.
#[derive(Default)]
pub(super) struct Chunk {
    commands: Vec<(u64, Bytes)>,
    pub(super) last: Option<proto::LogId>,
    membership: Option<proto::StoredMembership>,
    bytes: usize,
}

/// The index of an entry, and its command if it has one.
pub(super) type Numbered = (u64, Option<Command>);

/// Entries that are applied, and whose rows are not written yet.
#[derive(Default)]
pub(super) struct Unwritten {
    pub(super) last: Option<proto::LogId>,
    pub(super) membership: Option<proto::StoredMembership>,
    entries: usize,
    bytes: usize,
}

impl Chunk {
    pub(super) fn is_full(&self) -> bool {
        is_enough(self.commands.len(), self.bytes)
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

    pub(super) fn decoded(&self) -> io::Result<Vec<Numbered>> {
        let decode = |(index, bytes): &(u64, Bytes)| {
            if bytes.is_empty() {
                return Ok((*index, None));
            }
            let mut command = Command::decode(bytes.clone())?;
            if planted::is(Plant::LocalClock) {
                command.proposed_at_ms = stamp::wall_ms();
            }
            Ok((*index, Some(command)))
        };
        let decoded: Result<_, prost::DecodeError> = self.commands.iter().map(decode).collect();
        decoded.map_err(io::Error::other)
    }
}

impl Unwritten {
    /// A chunk was applied, and came to this.
    pub(super) fn add(&mut self, chunk: Chunk, outcomes: &[Outcome]) {
        self.entries += chunk.commands.len();
        self.bytes += chunk.bytes + outcomes.iter().map(values_written).sum::<usize>();
        self.last = chunk.last.or(self.last);
        self.membership = chunk.membership.or(self.membership.take());
    }

    pub(super) fn is_full(&self) -> bool {
        is_enough(self.entries, self.bytes)
    }
}

/// Whether no more is to be written at once.
const fn is_enough(entries: usize, bytes: usize) -> bool {
    entries >= APPLY_ENTRIES_MAX || bytes >= APPLY_BYTES_MAX
}

/// Bytes of values that a command writes without bearing them: what it hands out is kept for a repeat, and a renewed record stands anew.
fn values_written(outcome: &Outcome) -> usize {
    let of = |info: &Option<RecordInfo>| {
        let bytes = info.as_ref().map_or(0, |info| info.value_bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    };
    match &outcome.outcome {
        Some(Kind::Take(reply)) => reply.value.len(),
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

/// Whether these are callers' commands on handles and keys, named one by one so that a new kind is no such until somebody says so. All
/// others are about what the node itself acts on (Ticks, Touches, members, levels, data keys, tokens), which it must find when it hears of
/// it. The clock and the next deadline, which callers' commands move as well, it may learn of a moment later.
pub(super) fn is_callers_alone(commands: &[Numbered]) -> bool {
    let is_callers = |(_, command): &Numbered| {
        matches!(
            command
                .as_ref()
                .and_then(|command| command.operation.as_ref()),
            Some(
                Operation::Mint(_)
                    | Operation::Put(_)
                    | Operation::Take(_)
                    | Operation::Renew(_)
                    | Operation::Delete(_)
                    | Operation::Store(_)
                    | Operation::DeleteKey(_)
                    | Operation::BatchStore(_)
                    | Operation::Transact(_)
            )
        )
    };
    !commands.is_empty() && commands.iter().all(is_callers)
}
