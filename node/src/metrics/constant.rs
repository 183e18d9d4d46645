//! Metrics that have one value for one scrape.

use prometheus_client::{
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::{Metric, Registry},
};

pub(super) fn gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    register(registry, name, help, ConstGauge::<u64>::new(value));
}

/// In the unit that Prometheus wants of times.
pub(super) fn of_ms(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}

pub(super) fn seconds_gauge(registry: &mut Registry, name: &str, help: &str, value: f64) {
    register(registry, name, help, ConstGauge::<f64>::new(value));
}

pub(super) fn counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    register(registry, name, help, ConstCounter::<u64>::new(value));
}

pub(super) fn register(registry: &mut Registry, name: &str, help: &str, metric: impl Metric) {
    registry.register(name, help, metric);
}
