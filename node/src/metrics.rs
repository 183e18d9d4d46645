//! What the node counts, in `OpenMetrics` text for Prometheus.
//!
//! Calls are counted here as they happen. What the node is doing (role, indexes, log writer, disk) is read from its own status at
//! every scrape, so that `/metrics` and `helve status` cannot disagree.

mod audit;
mod budgets;
mod constant;
mod observed;
#[cfg(feature = "planted")]
mod planted;
pub(crate) mod process;
mod progress;
mod sealing;
mod tenants;
#[cfg(test)]
mod tests;
mod traces;

use std::{
    fmt,
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

pub use audit::AuditCounters;
use helve_proto::v1::{NodeStatus, StatusReply, TenantInfo};
pub use observed::{Observed, Ports, Times};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};
pub use traces::TraceCounters;

use self::{
    constant::{gauge, of_ms, seconds_gauge},
    tenants::{TenantCalls, register_usage},
};
use crate::bounds::Load;

/// Buckets of call times: 0.25 ms, doubling, up to 8 s.
const LATENCY_BUCKETS: (f64, f64, u16) = (0.000_25, 2.0, 16);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    rpc: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    rpc: &'static str,
    code: &'static str,
}

/// The node's counters. One for each node; cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    answers: Family<Answer, Counter>,
    seconds: Family<Call, Histogram>,
    in_flight: Gauge<u64, AtomicU64>,
    exchanges: Gauge<u64, AtomicU64>,
    tenants: TenantCalls,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("helve");
        let answers = Family::default();
        let seconds = Family::<Call, Histogram>::new_with_constructor(|| {
            let (start, factor, length) = LATENCY_BUCKETS;
            Histogram::new(exponential_buckets(start, factor, length))
        });
        let in_flight = Gauge::default();
        let exchanges = Gauge::default();
        registry.register(
            "requests",
            "Calls answered, by rpc and code or reason",
            answers.clone(),
        );
        registry.register(
            "request_seconds",
            "Time from a call's arrival to its answer",
            seconds.clone(),
        );
        registry.register("requests_in_flight", "Calls under way", in_flight.clone());
        registry.register(
            "exchange_streams",
            "Exchange streams that are open",
            exchanges.clone(),
        );
        let tenants = TenantCalls::default();
        tenants.register(&mut registry);
        Self {
            registry,
            answers,
            seconds,
            in_flight,
            exchanges,
            tenants,
        }
    }
}

impl Metrics {
    /// Shows what is observed elsewhere, too: of peers, of the log writer's syncs, and of the audit log, if there is one.
    pub(crate) fn showing(
        observed: &Observed,
        syncs: &Times,
        audit: Option<&AuditCounters>,
    ) -> Self {
        let mut metrics = Self::default();
        observed.register(&mut metrics.registry, syncs);
        if let Some(counters) = audit {
            counters.register(&mut metrics.registry);
        }
        metrics
    }

    /// Counts a call in. It counts as `cancelled` unless [`CallTimer::answered`] is called.
    pub(crate) fn call(&self, rpc: &'static str) -> CallTimer<'_> {
        self.in_flight.inc();
        CallTimer {
            metrics: self,
            rpc,
            code: "cancelled",
            start: Some(Instant::now()),
        }
    }

    /// Counts a stream that lives as long as its caller likes: by its end alone, since its life is no time of a call.
    pub(crate) fn stream(&self, rpc: &'static str) -> CallTimer<'_> {
        CallTimer {
            metrics: self,
            rpc,
            code: "cancelled",
            start: None,
        }
    }

    /// Counts a call of this tenant that was answered with this code.
    pub(crate) fn tenant_answered(&self, tenant: &str, code: &'static str) {
        self.tenants.answered(tenant, code);
    }

    /// Counts an Exchange stream until the guard is dropped.
    pub(crate) fn exchange(&self) -> StreamGuard {
        self.exchanges.inc();
        StreamGuard(self.exchanges.clone())
    }

    /// Everything in `OpenMetrics` text: the counters, and the node's status as of now.
    ///
    /// # Errors
    /// If the text cannot be written, which a string never refuses.
    pub fn encode(
        &self,
        status: &StatusReply,
        usage: &[TenantInfo],
        load: &Load,
    ) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode_registry(&mut page, &self.registry)?;
        text::encode_registry(&mut page, &status_registry(status, usage))?;
        text::encode_registry(&mut page, &process::registry())?;
        text::encode_registry(&mut page, &budgets::registry(load))?;
        #[cfg(feature = "planted")]
        text::encode_registry(&mut page, &planted::registry())?;
        text::encode_eof(&mut page)?;
        Ok(page)
    }
}

/// Counts one call, and measures it if it began as one.
#[derive(Debug)]
pub(crate) struct CallTimer<'a> {
    metrics: &'a Metrics,
    rpc: &'static str,
    code: &'static str,
    start: Option<Instant>,
}

impl CallTimer<'_> {
    /// The call was answered with this code: `ok`, or the reason of its error.
    pub(crate) fn answered(&mut self, code: &'static str) {
        self.code = code;
    }
}

impl Drop for CallTimer<'_> {
    fn drop(&mut self) {
        let Self {
            metrics,
            rpc,
            code,
            start,
        } = *self;
        metrics.answers.get_or_create(&Answer { rpc, code }).inc();
        if let Some(start) = start {
            metrics.in_flight.dec();
            let call = metrics.seconds.get_or_create(&Call { rpc });
            call.observe(seconds(start.elapsed()));
        }
    }
}

/// Counts an open stream until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamGuard(Gauge<u64, AtomicU64>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// The registry of one scrape: the status in the names of Prometheus, labelled with the group.
fn status_registry(status: &StatusReply, tenants: &[TenantInfo]) -> Registry {
    let mut registry = Registry::with_prefix("helve");
    let node = status.node.clone().unwrap_or_default();
    let build = vec![
        ("version", node.version.clone()),
        ("cluster_id", status.cluster_id.clone()),
    ];
    registry.register("node", "The node's version and cluster", Info::new(build));
    register_host(&mut registry, &node);
    let labels = [(
        "group_id".into(),
        crate::limits::GROUP_ID.to_string().into(),
    )];
    let group = registry.sub_registry_with_labels(labels.into_iter());
    progress::register(group, &node, &status.members);
    sealing::register(group, &node);
    let used = || tenants.iter().filter_map(|tenant| tenant.usage);
    gauge(
        group,
        "live_rows",
        "Handles and keys, expired ones not removed yet included",
        used().map(|used| used.rows).sum(),
    );
    gauge(
        group,
        "live_bytes",
        "Bytes of handles, keys and kept outcomes",
        used().map(|used| used.bytes).sum(),
    );
    register_usage(group, tenants);
    registry
}

/// What is of the machine rather than of the group.
fn register_host(registry: &mut Registry, node: &NodeStatus) {
    gauge(
        registry,
        "disk_used_bytes",
        "Bytes of log and rows on disk",
        node.disk_used_bytes,
    );
    gauge(
        registry,
        "disk_free_bytes",
        "Bytes free on the data's file system",
        node.disk_free_bytes,
    );
    gauge(
        registry,
        "disk_reserve_bytes",
        "Bytes that must stay free there: below them only what frees space is admitted",
        node.disk_reserve_bytes,
    );
    gauge(
        registry,
        "ready",
        "1 if the node is ready to serve",
        u64::from(node.ready),
    );
    seconds_gauge(
        registry,
        "wall_off_seconds",
        "Distance of the node's wall clock from the leader's time, 0 if it is near",
        of_ms(node.wall_off_ms),
    );
    seconds_gauge(
        registry,
        "clock_jump_seconds",
        "How far the cluster's time moved when this node had to trust its wall clock, 0 if little",
        of_ms(node.clock_jump_ms),
    );
    if node.certificate_expires_ms > 0 {
        seconds_gauge(
            registry,
            "certificate_expires_seconds",
            "When the first of the node's certificates expires, since the Unix epoch; absent without TLS",
            of_ms(node.certificate_expires_ms),
        );
    }
}
