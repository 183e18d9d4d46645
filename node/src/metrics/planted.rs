//! Which planted bug this process has executed, and which failpoints it has passed, how often.

use helve_machine::planted;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::failpoint;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Plant {
    plant: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failpoint {
    failpoint: &'static str,
}

/// The counts now.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::with_prefix("helve");
    let executions = Family::<Plant, Counter>::default();
    if let Some((plant, count)) = planted::executions() {
        let plant = plant.as_str();
        executions.get_or_create(&Plant { plant }).inc_by(count);
    }
    registry.register(
        "planted_executions",
        "Executions of the planted bug's line",
        executions,
    );
    let passages = Family::<Failpoint, Counter>::default();
    for (failpoint, count) in failpoint::passages() {
        let failpoint = failpoint.as_str();
        passages
            .get_or_create(&Failpoint { failpoint })
            .inc_by(count);
    }
    registry.register(
        "failpoint_passages",
        "Passages of a failpoint, armed or not",
        passages,
    );
    registry
}
