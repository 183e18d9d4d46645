//! Whether lines can be written, as the thread that writes them found it.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::room::Room;
use crate::{limits::AUDIT_QUEUE_BYTES_MAX, metrics::AuditCounters};

/// Whether lines can be written.
#[derive(Debug)]
pub(super) struct Health {
    is_failing: AtomicBool,
    /// Calls that have no line, since that was said last.
    lost: AtomicU64,
    /// Of bytes that wait to become durable.
    room: Room,
    counters: AuditCounters,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            is_failing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            room: Room::new(AUDIT_QUEUE_BYTES_MAX),
            counters: AuditCounters::default(),
        }
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn counters(&self) -> &AuditCounters {
        &self.counters
    }

    /// Whether the last attempt to write failed.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// A call has no line.
    pub(super) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.counters.lost.inc();
    }

    /// Whether there are calls without a line that were not told of.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed) > 0
    }

    /// How many calls have no line; the count then starts at zero.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// How an attempt to write ended.
    pub(super) fn note(&self, written: io::Result<()>) {
        let was_failing = self.is_failing.swap(written.is_err(), Ordering::Relaxed);
        match written {
            Err(error) => {
                self.counters.failures.inc();
                if !was_failing {
                    tracing::error!(%error, "the audit log cannot be written: see --audit-on-failure; it is tried again");
                }
            }
            Ok(()) if was_failing => tracing::info!("the audit log can be written again"),
            Ok(()) => {}
        }
        self.counters.failing.set(u64::from(self.is_failing()));
        self.counters.queued_bytes.set(self.room.taken() as u64);
    }

    /// Nothing will be written any more.
    pub(super) fn end(&self) {
        self.is_failing.store(true, Ordering::Relaxed);
    }
}
