//! What the audit log counts.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// What the audit log counts. Cheap to clone; the clones count together.
#[derive(Debug, Clone, Default)]
pub struct AuditCounters {
    /// Calls that were given a line.
    pub lines: Counter,
    /// Calls that have none, for want of room or of a disk.
    pub lost: Counter,
    /// Calls that were turned away.
    pub denied: Counter,
    /// Calls that are told of in a line about several.
    pub counted: Counter,
    /// Targets of calls that their lines only count.
    pub targets_left_out: Counter,
    /// Attempts to write that failed.
    pub failures: Counter,
    /// 1 while lines cannot be written.
    pub failing: Gauge<u64, AtomicU64>,
    /// Bytes of lines that are not durable yet, about.
    pub queued_bytes: Gauge<u64, AtomicU64>,
}

impl AuditCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("audit");
        registry.register("lines", "Calls recorded", self.lines.clone());
        registry.register("lost", "Calls without a line", self.lost.clone());
        registry.register("denied", "Calls turned away", self.denied.clone());
        registry.register(
            "counted",
            "Calls told of in a line about several",
            self.counted.clone(),
        );
        registry.register(
            "targets_left_out",
            "Targets of calls that a line has no room to name",
            self.targets_left_out.clone(),
        );
        registry.register(
            "failures",
            "Failed attempts to write",
            self.failures.clone(),
        );
        registry.register(
            "failing",
            "1 while the audit log cannot be written",
            self.failing.clone(),
        );
        registry.register(
            "queued_bytes",
            "Bytes of lines that are not durable yet",
            self.queued_bytes.clone(),
        );
    }
}
