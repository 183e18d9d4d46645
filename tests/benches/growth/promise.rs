//! What is to be reached, and whether it was.

use serde::Serialize;

use crate::{
    load::{Measured, Operation},
    nodes::Size,
    report::Report,
};

/// What must be left of the small cluster's speed.
const SPEED_LEAST: f64 = 0.80;
/// What a node may have of memory.
const MEMORY_MIB_MAX: f64 = 512.0;
/// How long a node may take until it serves.
const RESTART_SECONDS_MAX: f64 = 10.0;
/// What p99 may grow to while something else goes on.
const P99_RATIO_MAX: f64 = 2.0;

/// One thing that is to be reached.
#[derive(Debug, Serialize)]
pub(crate) struct Promise {
    pub(crate) what: String,
    pub(crate) measured: f64,
    pub(crate) unit: &'static str,
    pub(crate) bound: Bound,
    pub(crate) to_reach: f64,
    pub(crate) is_met: bool,
}

/// On which side of a figure it is good.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    AtLeast,
    AtMost,
    Below,
}

impl Bound {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
            Self::Below => "<",
        }
    }

    fn holds(self, measured: f64, to_reach: f64) -> bool {
        match self {
            Self::AtLeast => measured >= to_reach,
            Self::AtMost => measured <= to_reach,
            Self::Below => measured < to_reach,
        }
    }
}

impl Promise {
    fn new(
        what: impl Into<String>,
        (measured, unit): (f64, &'static str),
        (bound, to_reach): (Bound, f64),
    ) -> Self {
        Self {
            what: what.into(),
            measured,
            unit,
            bound,
            to_reach,
            is_met: bound.holds(measured, to_reach),
        }
    }
}

/// All promises of which there are figures.
pub(crate) fn promises(report: &Report) -> Vec<Promise> {
    let mut promises = Vec::new();
    for operation in [Operation::Mint, Operation::Get] {
        if let Some(ratio) = speed(&report.operations, operation) {
            let what = format!("{}, operations a second, grown / small", operation.title());
            let bound = (Bound::AtLeast, SPEED_LEAST);
            promises.push(Promise::new(what, (ratio, ""), bound));
        }
    }
    let grown = report.memory.iter().filter(|m| m.size == Size::Grown);
    if let Some(peak_bytes) = grown.map(|memory| memory.peak_bytes).max() {
        let measured = (mib(peak_bytes), "MiB");
        let bound = (Bound::Below, MEMORY_MIB_MAX);
        promises.push(Promise::new(
            "memory of a grown node, at most",
            measured,
            bound,
        ));
    }
    for restart in &report.restarts {
        let what = format!(
            "kill -9 of {}, from the start until a get is served through each",
            restart.killed.name()
        );
        let bound = (Bound::Below, RESTART_SECONDS_MAX);
        promises.push(Promise::new(what, (restart.longest(), "s"), bound));
    }
    let bound = (Bound::AtMost, P99_RATIO_MAX);
    if let Some(newcomer) = &report.newcomer {
        let what = "W1 mint, p99 while a new node gets a snapshot / before";
        promises.push(Promise::new(what, (newcomer.p99_ratio(), ""), bound));
    }
    for storm in &report.storms {
        let what = format!(
            "W1 mint, p99 while {} handles expire, {} / before",
            storm.handles,
            storm.title()
        );
        promises.push(Promise::new(what, (storm.p99_ratio(), ""), bound));
    }
    if let Some(cost) = report.quota_cost() {
        let what = "W1 mint in the storm, operations a second, with a quota / without";
        let bound = (Bound::AtLeast, SPEED_LEAST);
        promises.push(Promise::new(what, (cost.operations_ratio, ""), bound));
    }
    promises
}

/// The grown cluster's as a multiple of the small one's.
pub(crate) fn speed(operations: &[Measured], operation: Operation) -> Option<f64> {
    let of = |size| {
        let mut measured = operations.iter();
        let measured = measured.find(|m| (m.operation, m.size) == (operation, size))?;
        Some(measured.median.operations_per_second)
    };
    Some(of(Size::Grown)? / of(Size::Small)?)
}

#[expect(clippy::cast_precision_loss, reason = "bytes far below 2^52")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
