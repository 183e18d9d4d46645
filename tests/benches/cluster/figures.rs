//! What a measurement comes to, and how it is printed.

use anyhow::Result;
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use serde::Serialize;

/// One line of the result.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    workload: String,
    callers: usize,
    operations: u64,
    seconds: f64,
    operations_per_second: f64,
    p50_us: u64,
    p99_us: u64,
    /// Fsyncs of all nodes together for one operation.
    syncs_per_operation: f64,
}

impl Figures {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of a benchmark are far below 2^52"
    )]
    pub(crate) fn new(
        workload: String,
        callers: usize,
        latencies_us: &Histogram<u64>,
        seconds: f64,
        syncs: u64,
    ) -> Self {
        let operations = latencies_us.len();
        Self {
            workload,
            callers,
            operations,
            seconds,
            operations_per_second: operations as f64 / seconds,
            p50_us: latencies_us.value_at_quantile(0.5),
            p99_us: latencies_us.value_at_quantile(0.99),
            syncs_per_operation: syncs as f64 / operations.max(1) as f64,
        }
    }
}

/// How to print.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

impl Output {
    pub(crate) fn print(self, rows: &[Figures]) -> Result<()> {
        match self {
            Self::Json => println!("{}", serde_json::to_string_pretty(rows)?),
            Self::Table => println!("{}", table(rows)),
        }
        Ok(())
    }
}

fn table(rows: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "workload",
        "callers",
        "operations/s",
        "p50 ms",
        "p99 ms",
        "fsyncs/operation",
    ]);
    for row in rows {
        let ms = |us: u64| format!("{}.{:02}", us / 1000, us % 1000 / 10);
        table.add_row([
            row.workload.clone(),
            row.callers.to_string(),
            format!("{:.0}", row.operations_per_second),
            ms(row.p50_us),
            ms(row.p99_us),
            format!("{:.2}", row.syncs_per_operation),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
