//! How far the node and its members are.

use std::sync::atomic::AtomicU64;

use helve_proto::v1::{Member, NodeStatus};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::constant::{counter, gauge, of_ms, seconds_gauge};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MemberLabel {
    member_id: u64,
}

/// Shows it.
pub(super) fn register(group: &mut Registry, node: &NodeStatus, members: &[Member]) {
    register_raft(group, node);
    register_time(group, node);
    register_lags(group, members);
    gauge(
        group,
        "feature_level_held",
        "1 if the node holds the cluster at its feature level, 0 if it does not",
        u64::from(node.held_level != 0),
    );
}

fn register_time(group: &mut Registry, node: &NodeStatus) {
    seconds_gauge(
        group,
        "clock_seconds",
        "The replicated clock since the Unix epoch",
        of_ms(node.clock_ms),
    );
    seconds_gauge(
        group,
        "removal_lag_seconds",
        "How long the first expired row has waited for its removal, 0 if none does",
        of_ms(node.removal_lag_ms),
    );
    if let Some(ahead_ms) = node.walls_ahead_ms {
        seconds_gauge(
            group,
            "walls_ahead_seconds",
            "How far the wall clocks that a majority agrees on are ahead of the cluster's time, negative if behind",
            ahead_ms as f64 / 1_000.0,
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
    counter(
        group,
        "repaired_rows",
        "Derived rows that contradicted what they are derived from and were worked out again; report any",
        node.repaired_rows,
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
