//! What the node counts, in `OpenMetrics` text for Prometheus.
//!
//! Calls are counted here as they happen. What the node is doing (role, indexes, log writer, disk) is read from its own status at
//! every scrape, so that `/metrics` and `helve status` cannot disagree.

mod audit;
#[cfg(feature = "planted")]
mod planted;
mod sealing;
mod tenants;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

pub use audit::AuditCounters;
use helve_proto::v1::{Member, NodeStatus, StatusReply, TenantInfo};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Metric, Registry},
};

use self::tenants::{TenantCalls, register_usage};

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MemberLabel {
    member_id: u64,
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
    /// Shows what the audit log counts, too, if there is one.
    pub(crate) fn showing(audit: Option<&AuditCounters>) -> Self {
        let mut metrics = Self::default();
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
            start: Instant::now(),
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
    pub fn encode(&self, status: &StatusReply, usage: &[TenantInfo]) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode_registry(&mut page, &self.registry)?;
        text::encode_registry(&mut page, &status_registry(status, usage))?;
        #[cfg(feature = "planted")]
        text::encode_registry(&mut page, &planted::registry())?;
        text::encode_eof(&mut page)?;
        Ok(page)
    }
}

/// Measures one call.
#[derive(Debug)]
pub(crate) struct CallTimer<'a> {
    metrics: &'a Metrics,
    rpc: &'static str,
    code: &'static str,
    start: Instant,
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
        metrics.in_flight.dec();
        metrics.answers.get_or_create(&Answer { rpc, code }).inc();
        metrics
            .seconds
            .get_or_create(&Call { rpc })
            .observe(seconds(start.elapsed()));
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
    gauge(
        &mut registry,
        "disk_used_bytes",
        "Bytes of log and rows on disk",
        node.disk_used_bytes,
    );
    gauge(
        &mut registry,
        "disk_free_bytes",
        "Bytes free on the data's file system",
        node.disk_free_bytes,
    );
    gauge(
        &mut registry,
        "ready",
        "1 if the node is ready to serve",
        u64::from(node.ready),
    );
    gauge(
        &mut registry,
        "wall_off_milliseconds",
        "Distance of the node's wall clock from the leader's time, 0 if it is near",
        node.wall_off_ms,
    );
    gauge(
        &mut registry,
        "clock_jump_milliseconds",
        "How far the cluster's time moved when this node had to trust its wall clock, 0 if little",
        node.clock_jump_ms,
    );
    if node.certificate_expires_ms > 0 {
        gauge(
            &mut registry,
            "certificate_expires_milliseconds",
            "When the first of the node's certificates expires, since the Unix epoch; absent without TLS",
            node.certificate_expires_ms,
        );
    }
    let labels = [(
        "group_id".into(),
        crate::limits::GROUP_ID.to_string().into(),
    )];
    let group = registry.sub_registry_with_labels(labels.into_iter());
    register_raft(group, &node);
    register_time(group, &node);
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
    register_lags(group, &status.members);
    registry
}

fn register_time(group: &mut Registry, node: &NodeStatus) {
    gauge(
        group,
        "clock_milliseconds",
        "The replicated clock since the Unix epoch",
        node.clock_ms,
    );
    gauge(
        group,
        "removal_lag_milliseconds",
        "How long the first expired row has waited for its removal, 0 if none does",
        node.removal_lag_ms,
    );
    if let Some(ahead_ms) = node.walls_ahead_ms {
        register(
            group,
            "walls_ahead_milliseconds",
            "How far the wall clocks that a majority agrees on are ahead of the cluster's time, negative if behind",
            ConstGauge::<i64>::new(ahead_ms),
        );
    }
}

const ROLES: &str =
    "1 leader, 2 follower, 3 candidate, 4 learner, 5 pristine, 6 stopping, 7 removed";

fn register_raft(group: &mut Registry, node: &NodeStatus) {
    let role = u64::try_from(node.role).unwrap_or_default();
    let lag = node.committed_index.saturating_sub(node.applied_index);
    let gauges = [
        ("role", ROLES, role),
        (
            "leader_id",
            "The id of the leader, 0 if none is known",
            node.leader_id,
        ),
        ("term", "The current term", node.term),
        (
            "log_index",
            "The last entry in this node's log",
            node.last_log_index,
        ),
        (
            "committed_index",
            "The last entry known to be committed",
            node.committed_index,
        ),
        (
            "applied_index",
            "The last entry applied to the rows",
            node.applied_index,
        ),
        (
            "apply_lag_entries",
            "Committed entries not applied yet",
            lag,
        ),
        (
            "snapshot_index",
            "The last entry in the newest snapshot",
            node.snapshot_index,
        ),
        (
            "purged_index",
            "The last entry purged from the log",
            node.purged_index,
        ),
    ];
    for (name, help, value) in gauges {
        gauge(group, name, help, value);
    }
    counter(
        group,
        "log_syncs",
        "Syncs of the log writer",
        node.log_syncs,
    );
    counter(
        group,
        "log_entries",
        "Entries that the log writer wrote",
        node.log_entries,
    );
    counter(
        group,
        "log_bytes",
        "Bytes that the log writer wrote",
        node.log_bytes,
    );
}

fn register_lags(group: &mut Registry, members: &[Member]) {
    let lags = Family::<MemberLabel, Gauge<u64, AtomicU64>>::default();
    for member in members {
        if let Some(lag) = member.lag_entries {
            lags.get_or_create(&MemberLabel {
                member_id: member.id,
            })
            .set(lag);
        }
    }
    group.register(
        "member_lag_entries",
        "Entries that a member lacks, as this leader knows",
        lags,
    );
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    register(registry, name, help, ConstGauge::<u64>::new(value));
}

fn counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    register(registry, name, help, ConstCounter::<u64>::new(value));
}

fn register(registry: &mut Registry, name: &str, help: &str, metric: impl Metric) {
    registry.register(name, help, metric);
}
