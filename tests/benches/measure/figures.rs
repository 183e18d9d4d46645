//! The figures of a round, and the medians of several.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::usage::Usage;

/// One round, or the median of several, figure by figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) operations_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) longest_ms: f64,
    /// Of what is measured, all its processes, for a thousand operations.
    pub(crate) server_cpu_seconds_per_1000: f64,
    /// Of the process that makes the load, for a thousand operations.
    pub(crate) client_cpu_seconds_per_1000: f64,
    /// To the disk, by the same processes, for one operation.
    pub(crate) written_bytes_per_operation: f64,
    /// By the same processes, for one operation, where they count them.
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
            longest_ms: latencies_us.max() as f64 / 1e3,
            server_cpu_seconds_per_1000: used.server.cpu_seconds / operations * 1e3,
            client_cpu_seconds_per_1000: used.client.cpu_seconds / operations * 1e3,
            written_bytes_per_operation: used.server.written_bytes as f64 / operations,
            syncs_per_operation: used.syncs.map(|syncs| syncs as f64 / operations),
        }
    }
}

impl Figures {
    /// `None` without rounds.
    pub(crate) fn median(rounds: &[Self]) -> Option<Self> {
        if rounds.is_empty() {
            return None;
        }
        let middle = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        let syncs: Option<Vec<f64>> = rounds.iter().map(|f| f.syncs_per_operation).collect();
        Some(Self {
            operations_per_second: middle(|f| f.operations_per_second),
            p50_ms: middle(|f| f.p50_ms),
            p99_ms: middle(|f| f.p99_ms),
            p999_ms: middle(|f| f.p999_ms),
            longest_ms: middle(|f| f.longest_ms),
            server_cpu_seconds_per_1000: middle(|f| f.server_cpu_seconds_per_1000),
            client_cpu_seconds_per_1000: middle(|f| f.client_cpu_seconds_per_1000),
            written_bytes_per_operation: middle(|f| f.written_bytes_per_operation),
            syncs_per_operation: syncs.map(|syncs| median(syncs.into_iter())),
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
