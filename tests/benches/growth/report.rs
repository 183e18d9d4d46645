//! What is printed: promises first, then figures; everything for programs.

use std::{fs, path::Path};

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;

use crate::{
    fill::Filled,
    footprint::{Disk, Memory},
    load::{Measured, Operation},
    measure::{
        figures::Figures,
        table::{aligned, table},
    },
    newcomer::Newcomer,
    nodes::Size,
    plan::Plan,
    promise::{Promise, mib, promises, speed},
    restart::Restart,
    storm::{QuotaCost, Storm},
};

/// Nodes of each cluster.
const NODES: u32 = 3;

/// All that was measured so far.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) plan: Plan,
    pub(crate) filled: Vec<Filled>,
    pub(crate) operations: Vec<Measured>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) disk: Vec<Disk>,
    pub(crate) restarts: Vec<Restart>,
    pub(crate) newcomer: Option<Newcomer>,
    pub(crate) storms: Vec<Storm>,
}

/// The same, and what follows from it.
#[derive(Serialize)]
struct Judged<'a> {
    promises: Vec<Promise>,
    /// What a quota that is never reached costs in a storm.
    quota_cost: Option<QuotaCost>,
    #[serde(flatten)]
    report: &'a Report,
}

impl Report {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            filled: Vec::new(),
            operations: Vec::new(),
            memory: Vec::new(),
            disk: Vec::new(),
            restarts: Vec::new(),
            newcomer: None,
            storms: Vec::new(),
        }
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        let judged = Judged {
            promises: promises(self),
            quota_cost: self.quota_cost(),
            report: self,
        };
        Ok(fs::write(path, serde_json::to_string_pretty(&judged)?)?)
    }

    pub(crate) fn quota_cost(&self) -> Option<QuotaCost> {
        QuotaCost::of(&self.storms)
    }

    /// In Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("What is to be reached:\n\n{}\n", self.promises());
        text += &format!(
            "\nHow the clusters were filled; bytes written until the nodes were at rest:\n\n{}\n",
            self.fills()
        );
        text += &format!(
            "\nUnder load, {} callers; medians of rounds, figure by figure:\n\n{}\n",
            self.plan.callers,
            self.figures()
        );
        text += &format!("\nOf these, one by the other:\n\n{}\n", self.ratios());
        text += &format!(
            "\nMemory, of all processes that a seat had until then:\n\n{}\n",
            self.memories()
        );
        text += &format!("\nDisk, once filled and at rest:\n\n{}\n", self.disks());
        text += &format!("\nSeconds, and what else there is:\n\n{}\n", self.times());
        text
    }

    fn promises(&self) -> Table {
        let mut table = table(&["what", "measured", "to reach", "met"]);
        for promise in promises(self) {
            let Promise {
                what,
                measured,
                unit,
                bound,
                to_reach,
                is_met,
            } = promise;
            table.add_row([
                what,
                format!("{measured:.2} {unit}"),
                format!("{} {to_reach:.2} {unit}", bound.sign()),
                if is_met { "yes" } else { "no" }.to_owned(),
            ]);
        }
        aligned(table, 1)
    }

    fn fills(&self) -> Table {
        let mut table = table(&[
            "cluster",
            "handles",
            "s",
            "handles/s",
            "s until at rest",
            "logical MiB",
            "written MiB",
            "written / (logical x nodes)",
        ]);
        for filled in &self.filled {
            table.add_row([
                filled.size.name().to_owned(),
                filled.handles.to_string(),
                format!("{:.1}", filled.seconds),
                format!("{:.0}", filled.handles_per_second()),
                format!("{:.1}", filled.rest_seconds),
                format!("{:.1}", mib(filled.logical_bytes)),
                format!("{:.1}", mib(filled.written_bytes)),
                format!("{:.2}", filled.amplification(NODES)),
            ]);
        }
        aligned(table, 1)
    }

    fn figures(&self) -> Table {
        let mut table = table(&[
            "load",
            "cluster",
            "ops/s",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "longest ms",
            "server CPU s/1000",
            "bytes/op",
        ]);
        for measured in &self.operations {
            row(
                &mut table,
                measured.operation.title(),
                measured.size,
                &measured.median,
            );
        }
        let mint = Operation::Mint.title();
        let mut grown =
            |when: &str, figures| row(&mut table, &format!("{mint}, {when}"), Size::Grown, figures);
        if let Some(newcomer) = &self.newcomer {
            grown("before a node is wiped", &newcomer.before.median);
            grown("while it gets a snapshot", &newcomer.during);
        }
        for storm in &self.storms {
            let (size, quota) = (storm.before.size, storm.quota());
            let before = format!("{mint}, before the storm, {quota}");
            row(&mut table, &before, size, &storm.before.median);
            let during = format!("{mint}, in the storm, {quota}");
            row(&mut table, &during, size, &storm.during);
        }
        aligned(table, 2)
    }

    fn ratios(&self) -> Table {
        let mut table = table(&["load", "ops/s, grown / small"]);
        let mut titles: Vec<_> = self.operations.iter().map(|m| m.operation).collect();
        titles.dedup();
        for operation in titles {
            if let Some(ratio) = speed(&self.operations, operation) {
                table.add_row([operation.title().to_owned(), format!("{ratio:.2}")]);
            }
        }
        aligned(table, 1)
    }

    fn memories(&self) -> Table {
        let mut table = table(&["cluster", "node", "when", "resident MiB", "peak MiB"]);
        for memory in &self.memory {
            table.add_row([
                memory.size.name().to_owned(),
                memory.seat.to_string(),
                memory.when.to_owned(),
                format!("{:.0}", mib(memory.resident_bytes)),
                format!("{:.0}", mib(memory.peak_bytes)),
            ]);
        }
        aligned(table, 3)
    }

    fn disks(&self) -> Table {
        let mut table = table(&[
            "cluster",
            "node",
            "rows MiB",
            "log MiB",
            "snapshot alone MiB",
            "all / logical",
        ]);
        for disk in &self.disk {
            let mut filled = self.filled.iter();
            let logical_bytes = filled
                .find(|filled| filled.size == disk.size)
                .map_or(0, |filled| filled.logical_bytes);
            table.add_row([
                disk.size.name().to_owned(),
                disk.seat.to_string(),
                format!("{:.1}", mib(disk.rows_bytes)),
                format!("{:.1}", mib(disk.log_bytes)),
                format!("{:.1}", mib(disk.snapshot_bytes)),
                format!("{:.2}", mib(disk.all_bytes()) / mib(logical_bytes)),
            ]);
        }
        aligned(table, 2)
    }

    fn times(&self) -> Table {
        let mut rows = Vec::new();
        let seconds = |seconds: &f64| format!("{seconds:.2} s");
        for restart in &self.restarts {
            let each: Vec<String> = restart.seconds.iter().map(seconds).collect();
            let what = format!("kill -9 of {}, until it serves", restart.killed.name());
            rows.push((what, each.join(", ")));
        }
        let mut row = |what: &str, figure| rows.push((what.to_owned(), figure));
        if let Some(newcomer) = &self.newcomer {
            let snapshot = format!("{:.1} MiB", mib(newcomer.snapshot_bytes));
            row(
                "wiped node, until it serves",
                seconds(&newcomer.serves_seconds),
            );
            row(
                "wiped node, until it votes",
                seconds(&newcomer.votes_seconds),
            );
            row("snapshot that it got", snapshot);
        }
        for storm in &self.storms {
            let what = format!("handles that expired together, {}", storm.title());
            row(&what, storm.handles.to_string());
            row("within", format!("{} ms", storm.spread_ms));
            row("until they were removed", seconds(&storm.swept_seconds));
        }
        if let Some(cost) = self.quota_cost() {
            row(
                "operations a second in the storm, with a quota / without",
                format!("{:.2}", cost.operations_ratio),
            );
            row(
                "p99 in the storm, with a quota / without",
                format!("{:.2}", cost.p99_ratio),
            );
        }
        let mut table = table(&["what", "figure"]);
        for (what, figure) in rows {
            table.add_row([what, figure]);
        }
        aligned(table, 1)
    }
}

fn row(table: &mut Table, load: &str, size: Size, figures: &Figures) {
    table.add_row([
        load.to_owned(),
        size.name().to_owned(),
        format!("{:.0}", figures.operations_per_second),
        format!("{:.2}", figures.p50_ms),
        format!("{:.2}", figures.p99_ms),
        format!("{:.2}", figures.p999_ms),
        format!("{:.2}", figures.longest_ms),
        format!("{:.4}", figures.server_cpu_seconds_per_1000),
        format!("{:.0}", figures.written_bytes_per_operation),
    ]);
}
