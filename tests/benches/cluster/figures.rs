//! What a round comes to, and the medians of several.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{daemon::Usage, product::Product, workload::Workload};

/// One round of one product under one workload, or the median of several rounds, figure by figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) operations_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    /// Of the product's processes, for a thousand operations.
    pub(crate) server_cpu_seconds_per_1000: f64,
    /// Of the process that makes the load, for a thousand operations.
    pub(crate) client_cpu_seconds_per_1000: f64,
    /// To the disk, of all the product's processes, for one operation.
    pub(crate) written_bytes_per_operation: f64,
    /// Of all its processes, for one operation, where it counts them.
    pub(crate) syncs_per_operation: Option<f64>,
}

/// What was used in a round.
pub(crate) struct Used {
    pub(crate) seconds: f64,
    pub(crate) server: Usage,
    pub(crate) client: Usage,
    pub(crate) syncs: Option<u64>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^52"
)]
impl Figures {
    pub(crate) fn of(latencies_us: &Histogram<u64>, used: &Used) -> Self {
        let operations = latencies_us.len().max(1) as f64;
        let quantile_ms = |quantile| latencies_us.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            operations_per_second: latencies_us.len() as f64 / used.seconds,
            p50_ms: quantile_ms(0.5),
            p99_ms: quantile_ms(0.99),
            p999_ms: quantile_ms(0.999),
            server_cpu_seconds_per_1000: used.server.cpu_seconds / operations * 1e3,
            client_cpu_seconds_per_1000: used.client.cpu_seconds / operations * 1e3,
            written_bytes_per_operation: used.server.written_bytes as f64 / operations,
            syncs_per_operation: used.syncs.map(|syncs| syncs as f64 / operations),
        }
    }
}

/// All rounds of one product under one workload with so many callers.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) workload: Workload,
    pub(crate) callers: usize,
    pub(crate) product: Product,
    pub(crate) median: Figures,
    pub(crate) rounds: Vec<Figures>,
}

impl Cell {
    /// `None` without rounds.
    pub(crate) fn new(
        workload: Workload,
        callers: usize,
        product: Product,
        rounds: Vec<Figures>,
    ) -> Option<Self> {
        if rounds.is_empty() {
            return None;
        }
        let middle = |figure: fn(&Figures) -> f64| median(rounds.iter().map(figure));
        let syncs: Option<Vec<f64>> = rounds.iter().map(|f| f.syncs_per_operation).collect();
        let median = Figures {
            operations_per_second: middle(|f| f.operations_per_second),
            p50_ms: middle(|f| f.p50_ms),
            p99_ms: middle(|f| f.p99_ms),
            p999_ms: middle(|f| f.p999_ms),
            server_cpu_seconds_per_1000: middle(|f| f.server_cpu_seconds_per_1000),
            client_cpu_seconds_per_1000: middle(|f| f.client_cpu_seconds_per_1000),
            written_bytes_per_operation: middle(|f| f.written_bytes_per_operation),
            syncs_per_operation: syncs.map(|syncs| median(syncs.into_iter())),
        };
        Some(Self {
            workload,
            callers,
            product,
            median,
            rounds,
        })
    }
}

/// The middle one, or the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    f64::midpoint(values[low], values[high])
}
