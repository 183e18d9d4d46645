//! What the load came to.

use std::{collections::BTreeMap, time::Duration};

use anyhow::anyhow;
use hdrhistogram::Histogram;
use helve_command::{
    ending::{Ending, Outcome},
    output::{count as figure, table},
};
use serde::Serialize;

use super::{Args, load::Seen};

/// Figures of the whole run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: String,
    callers: u64,
    rate: Option<u32>,
    seconds: f64,
    calls: u64,
    calls_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    /// By kind.
    errors: BTreeMap<String, u64>,
    last_error: Option<String>,
}

impl Report {
    pub(super) fn of(args: &Args, seen: &Seen, elapsed: Duration) -> Self {
        let latencies = &seen.latencies_us;
        Self {
            workload: format!("{:?}", args.workload).to_lowercase(),
            callers: args.callers,
            rate: args.rate,
            seconds: elapsed.as_secs_f64(),
            calls: latencies.len(),
            calls_per_second: per_second(latencies.len(), elapsed),
            p50_ms: quantile_ms(latencies, 0.5),
            p99_ms: quantile_ms(latencies, 0.99),
            p999_ms: quantile_ms(latencies, 0.999),
            max_ms: quantile_ms(latencies, 1.0),
            errors: seen.errors.clone(),
            last_error: seen.last_error.clone(),
        }
    }

    pub(super) fn page(&self) -> String {
        let mut rows = table(&["WHAT", "FIGURE"]);
        rows.add_row(["workload".to_owned(), self.workload.clone()]);
        rows.add_row(["callers".to_owned(), figure(self.callers)]);
        if let Some(rate) = self.rate {
            rows.add_row(["requested calls a second".to_owned(), figure(rate.into())]);
        }
        rows.add_row(["seconds".to_owned(), format!("{:.1}", self.seconds)]);
        rows.add_row(["calls answered".to_owned(), figure(self.calls)]);
        let per_second = format!("{:.0}", self.calls_per_second);
        rows.add_row(["a second".to_owned(), per_second]);
        for (name, ms) in [
            ("p50", self.p50_ms),
            ("p99", self.p99_ms),
            ("p99.9", self.p999_ms),
            ("longest", self.max_ms),
        ] {
            rows.add_row([name.to_owned(), format!("{ms:.2} ms")]);
        }
        for (kind, failed) in &self.errors {
            rows.add_row([format!("failed: {kind}"), figure(*failed)]);
        }
        rows.to_string()
    }

    /// Whether all calls were answered.
    ///
    /// # Errors
    /// If not.
    pub(super) fn verdict(&self) -> Outcome {
        let Some(last) = &self.last_error else {
            return Ok(());
        };
        let failed: u64 = self.errors.values().sum();
        if self.calls == 0 {
            return Err(Ending::Unanswered(anyhow!("no call was answered: {last}")));
        }
        Err(Ending::Absent(anyhow!(
            "{failed} calls failed; the last error: {last}"
        )))
    }
}

/// How it goes, in one line.
pub(super) fn line(seen: &Seen, elapsed: Duration) -> String {
    let latencies = &seen.latencies_us;
    let failed: u64 = seen.errors.values().sum();
    let mut line = format!(
        "{:.0} calls/s, p50 {:.2} ms, p99 {:.2} ms",
        per_second(latencies.len(), elapsed),
        quantile_ms(latencies, 0.5),
        quantile_ms(latencies, 0.99),
    );
    if let Some(error) = &seen.last_error {
        line += &format!(", {failed} failed: {error}");
    }
    line
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds far below 2^52")]
fn quantile_ms(latencies_us: &Histogram<u64>, quantile: f64) -> f64 {
    latencies_us.value_at_quantile(quantile) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_said_and_ends_badly() {
        let mut seen = Seen::default();
        assert!(line(&seen, Duration::from_secs(1)).starts_with("0 calls/s"));
        seen.latencies_us.saturating_record(1_500);
        assert_eq!(
            line(&seen, Duration::from_millis(500)),
            "2 calls/s, p50 1.50 ms, p99 1.50 ms"
        );
        seen.errors.insert("Overloaded".to_owned(), 3);
        seen.last_error = Some("too much is under way".to_owned());
        let line = line(&seen, Duration::from_secs(1));
        assert!(
            line.ends_with(", 3 failed: too much is under way"),
            "{line}"
        );
    }
}
