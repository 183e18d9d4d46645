//! The log of calls that were turned away. It has a file and a chain of its own, so that strangers can neither push other callers'
//! lines out nor keep a call from being recorded.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::{head_file::HeadFile, health::Health, kinds::Kinds, record::Record, sink::Sink};
use crate::{limits::AUDIT_PERIOD, stamp};

/// Bytes that may wait for the disk; lines beyond them are counted as lost.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Whether what was written is to be synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    /// Now.
    Due,
    /// Later.
    Later,
}

/// The file and its chain.
pub(super) struct Apart {
    pub(super) sink: Sink,
    pub(super) kept: HeadFile,
    pub(super) is_failing: bool,
}

impl Apart {
    /// Adds a line, if the disk keeps up.
    pub(super) fn append(&mut self, wall_ms: u64, record: &Record<'_>, health: &Health) {
        if self.sink.waiting_bytes() < WAITING_BYTES_MAX {
            self.sink.append(wall_ms, record);
        } else {
            health.lose();
        }
    }

    /// Writes what was added; syncs it where that is due. An error is noted, and refuses no call.
    pub(super) fn write(&mut self, sync: Sync, health: &Health) {
        let done = if sync == Sync::Due {
            self.sink
                .sync()
                .and_then(|()| self.kept.keep(&self.sink.head))
        } else {
            self.sink.write()
        };
        if let Err(error) = &done {
            health.counters().failures.inc();
            if !self.is_failing {
                tracing::error!(%error, "the audit log of calls that were turned away cannot be written; it is tried again");
            }
        } else if self.is_failing {
            tracing::info!("the audit log of calls that were turned away can be written again");
        }
        self.is_failing = done.is_err();
    }
}

/// Counts of calls that have no line of their own, and when they are told of.
pub(super) struct Counted {
    /// Those that were turned away.
    pub(super) denied: Arc<Mutex<Kinds>>,
    /// Those of tenants whose lines have no room.
    pub(super) over: Kinds,
    /// When the period ends; `None` while there is nothing to tell of.
    pub(super) tell_at: Option<Instant>,
}

impl Counted {
    /// There may be something to tell of at the end of the period.
    pub(super) fn begin(&mut self) {
        self.tell_at.get_or_insert(Instant::now() + AUDIT_PERIOD);
    }

    /// Adds a line of each kind of calls that were counted.
    pub(super) fn tell(&mut self, sink: &mut Sink, apart: Option<&mut Apart>, health: &Health) {
        self.tell_at = None;
        for line in lines(&mut self.over, health) {
            sink.append(stamp::wall_ms(), &line.record());
        }
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = lines(&mut denied, health);
        drop(denied);
        match apart {
            Some(apart) => {
                for line in counted {
                    apart.append(stamp::wall_ms(), &line.record(), health);
                }
            }
            None => {
                for line in counted {
                    sink.append(stamp::wall_ms(), &line.record());
                }
            }
        }
    }
}

/// A kind of calls, and how many of them have no line of their own.
struct Line(super::kinds::Kind, u64);

impl Line {
    fn record(&self) -> Record<'_> {
        let Self(kind, count) = self;
        Record::Counted {
            peer: kind.peer,
            tenant: &kind.tenant,
            principal: &kind.principal,
            operation: kind.operation,
            outcome: kind.outcome,
            count: *count,
            within_ms: u64::try_from(AUDIT_PERIOD.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn lines(kinds: &mut Kinds, health: &Health) -> Vec<Line> {
    let lines: Vec<_> = kinds
        .take()
        .into_iter()
        .map(|(kind, count)| Line(kind, count))
        .collect();
    let calls = lines.iter().map(|line| line.1).sum();
    health.counters().counted.inc_by(calls);
    lines
}
