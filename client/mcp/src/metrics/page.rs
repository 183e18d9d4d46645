//! The names of everything on the page.

use helve_http::{Bound, Traffic};
use prometheus_client::{
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        info::Info,
    },
    registry::{Metric, Registry},
};

use super::{Counters, Over};

impl Counters {
    /// What is counted as it happens.
    pub(super) fn register(&mut self) {
        let registry = &mut self.registry;
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "The server's version", Info::new(version));
        registry.register(
            "requests",
            "Requests answered, by method and outcome",
            self.requests.clone(),
        );
        registry.register(
            "request_seconds",
            "Time from a request's head to the head of its answer, by method",
            self.seconds.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests whose answer has not begun",
            self.in_flight.clone(),
        );
        registry.register(
            "limits_refused",
            "Requests that a bound of sessions, subscriptions or tasks refused, by bound",
            self.refused.clone(),
        );
        let gauges = [
            (
                "sessions",
                "Copies of older clients' sessions that this replica holds",
                &self.sessions,
            ),
            (
                "subscriptions",
                "Subscriptions to tasks that this replica holds",
                &self.subscriptions,
            ),
            ("tasks_running", "Tasks that this replica runs", &self.tasks),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, Gauge::clone(gauge));
        }
        registry.register(
            "tasks",
            "What became of tasks at this replica, by event",
            self.runs.clone(),
        );
    }
}

/// What the listener says at a scrape.
pub(super) fn registry(traffic: &Traffic) -> Registry {
    let mut registry = Registry::with_prefix("helve_mcp");
    let refused = Family::<Over, Counter>::default();
    for bound in Bound::ALL {
        let over = Over {
            bound: bound.as_str(),
        };
        refused.get_or_create(&over).inc_by(traffic.refused(bound));
    }
    registry.register(
        "connection_limits_refused",
        "Connections, requests and answers that the listener refused or gave up, by bound",
        refused,
    );
    let gauges = [
        ("connections", "Open connections", traffic.connections()),
        (
            "streams",
            "Answers that stream until their callers go, subscriptions included",
            traffic.streams(),
        ),
        (
            "request_body_bytes",
            "Bytes of bodies that are held",
            traffic.request_bytes(),
        ),
        (
            "answer_bytes",
            "Bytes of answers that wait for callers who do not read them",
            traffic.answer_bytes(),
        ),
        (
            "draining",
            "1 once the server has been asked to stop",
            u64::from(traffic.is_stopping()),
        ),
    ];
    for (name, help, value) in gauges {
        register(&mut registry, name, help, ConstGauge::<u64>::new(value));
    }
    let counters = [
        (
            "connections_accepted",
            "Connections accepted, refused ones included",
            traffic.accepted(),
        ),
        (
            "connections_broken_off",
            "Connections whose requests were not answered in the time to stop",
            traffic.broken_off(),
        ),
    ];
    for (name, help, value) in counters {
        register(&mut registry, name, help, ConstCounter::<u64>::new(value));
    }
    registry
}

fn register(registry: &mut Registry, name: &str, help: &str, metric: impl Metric) {
    registry.register(name, help, metric);
}
