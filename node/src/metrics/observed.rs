//! What is observed where it happens, deep in the node, and shown at a scrape.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::traces::TraceCounters;
use crate::connections::PortUse;

/// Buckets of the times of disks and peers: 0.1 ms, doubling, up to 3.3 s.
const BUCKETS: (f64, f64, u16) = (0.000_1, 2.0, 16);

/// How long something took, each time. Clones count together.
#[derive(Debug, Clone)]
pub struct Times(Histogram);

impl Default for Times {
    fn default() -> Self {
        let (start, factor, length) = BUCKETS;
        Self(Histogram::new(exponential_buckets(start, factor, length)))
    }
}

impl Times {
    /// It took this long once more.
    pub fn observe(&self, time: Duration) {
        self.0.observe(time.as_secs_f64());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Peer {
    member_id: u64,
}

/// What a node observes of its leader and its peers. Clones count together.
#[derive(Debug, Clone)]
pub struct Observed {
    leader_changes: Counter,
    round_trips: Family<Peer, Histogram>,
    peers: Arc<Mutex<BTreeSet<u64>>>,
    ports: Ports,
    traces: TraceCounters,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            leader_changes: Counter::default(),
            round_trips: Family::new_with_constructor(|| Times::default().0),
            peers: Arc::default(),
            ports: Ports::default(),
            traces: TraceCounters::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Port {
    port: &'static str,
}

/// How full the ports for gRPC are.
#[derive(Debug, Clone)]
pub struct Ports {
    held: Family<Port, Gauge>,
    limit: Family<Port, Gauge>,
    handshakes: Family<Port, Gauge>,
    refused: Family<Port, Counter>,
    /// The port for clients.
    pub client: PortUse,
    /// The port for nodes.
    pub peer: PortUse,
    /// Requests of pages in browsers, and by other names than this node's, that the port for clients refused.
    pub names_refused: Counter,
}

impl Default for Ports {
    fn default() -> Self {
        let (held, limit) = (Family::default(), Family::default());
        let (handshakes, refused) = (Family::default(), Family::default());
        let of = |port| {
            let port = Port { port };
            PortUse {
                held: held.get_or_create_owned(&port),
                limit: limit.get_or_create_owned(&port),
                handshakes: handshakes.get_or_create_owned(&port),
                refused: refused.get_or_create_owned(&port),
            }
        };
        let (client, peer) = (of("client"), of("peer"));
        Self {
            held,
            limit,
            handshakes,
            refused,
            client,
            peer,
            names_refused: Counter::default(),
        }
    }
}

impl Ports {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "connections",
            "Open connections to a port",
            self.held.clone(),
        );
        registry.register(
            "connections_limit",
            "Connections that a port may have",
            self.limit.clone(),
        );
        registry.register(
            "handshakes",
            "TLS handshakes under way at a port",
            self.handshakes.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections that a port refused, or closed for others while they said nothing",
            self.refused.clone(),
        );
        registry.register(
            "page_requests_refused",
            "Requests of pages in browsers, or by names that are not this node's, that the client port refused",
            self.names_refused.clone(),
        );
    }
}

impl Observed {
    /// With these ports.
    #[must_use]
    pub fn at(ports: Ports) -> Self {
        Self {
            ports,
            ..Self::default()
        }
    }

    /// What the export of traces counts.
    #[must_use]
    pub fn traces(&self) -> &TraceCounters {
        &self.traces
    }

    /// Another node leads than before, or the same one in another term.
    pub fn leader_changed(&self) {
        self.leader_changes.inc();
    }

    /// A peer answered a heartbeat of this leader after this time.
    pub fn peer_answered(&self, member_id: u64, time: Duration) {
        self.peers().insert(member_id);
        let peer = Peer { member_id };
        let times = self.round_trips.get_or_create(&peer);
        times.observe(time.as_secs_f64());
    }

    /// Forgets every peer that is none of these.
    pub fn retain_peers(&self, members: &BTreeSet<u64>) {
        self.peers().retain(|member_id| {
            let stays = members.contains(member_id);
            if !stays {
                let member_id = *member_id;
                self.round_trips.remove(&Peer { member_id });
            }
            stays
        });
    }

    fn peers(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows it, with the times of the log writer's syncs.
    pub(super) fn register(&self, registry: &mut Registry, syncs: &Times) {
        let help = "Changes of leader that this node has seen, its own election included";
        registry.register("leader_changes", help, self.leader_changes.clone());
        let help = "Time from a heartbeat of this leader to the member's answer";
        registry.register("peer_round_trip_seconds", help, self.round_trips.clone());
        let help = "Time that the log writer waited for one write with its sync";
        registry.register("log_sync_seconds", help, syncs.0.clone());
        self.ports.register(registry);
        self.traces.register(registry);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn a_member_that_left_has_no_line_any_more() {
        let observed = Observed::default();
        let mut registry = Registry::default();
        observed.register(&mut registry, &Times::default());
        for member in [2, 3] {
            observed.peer_answered(member, Duration::from_millis(1));
        }
        observed.retain_peers(&[3, 4].into());
        let mut page = String::new();
        text::encode_registry(&mut page, &registry).unwrap();
        assert!(
            page.contains(r#"peer_round_trip_seconds_count{member_id="3"} 1"#)
                && !page.contains(r#"member_id="2""#),
            "{page}"
        );
    }
}
