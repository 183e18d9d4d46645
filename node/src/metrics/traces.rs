//! What the export of traces counts.

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// What the export of traces counts. Cheap to clone; the clones count together.
#[derive(Debug, Clone, Default)]
pub struct TraceCounters {
    /// Spans that the collector took.
    pub exported: Counter,
    /// Spans that it did not take, or for which there was no room.
    pub dropped: Counter,
}

impl TraceCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("trace_spans");
        let (exported, dropped) = (self.exported.clone(), self.dropped.clone());
        registry.register("exported", "Spans that the collector took", exported);
        registry.register(
            "dropped",
            "Spans that the collector did not take, or that found no room to wait for it",
            dropped,
        );
    }
}
