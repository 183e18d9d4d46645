//! What is printed: ratios and figures for people, everything for programs.

use std::{fs, path::Path};

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;

use crate::{
    cell::Cell,
    floor::Floors,
    measure::{
        figures::Figures,
        table::{aligned, table},
    },
    product::Product,
    workload::Workload,
};

/// All that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// What each product promises as it was configured.
    pub(crate) promises: Vec<(Product, String)>,
    /// What was asked for and could not be measured, and why.
    pub(crate) left_out: Vec<(Product, String)>,
    pub(crate) floors: Floors,
    pub(crate) cells: Vec<Cell>,
}

impl Report {
    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, serde_json::to_string_pretty(self)?)?)
    }

    /// In Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("What each promises:\n\n");
        for (product, promise) in &self.promises {
            text += &format!("- {}: {promise}\n", product.name());
        }
        for (product, why) in &self.left_out {
            text += &format!("- {} was left out: {why}\n", product.name());
        }
        text += &format!(
            "\nFloors of this machine in this run:\n\n{}\n",
            self.floors.table()
        );
        text += &format!("\nMedians, figure by figure:\n\n{}\n", self.figures());
        text += &format!(
            "\nHelve's operations a second, and its p99, as multiples of each rival's:\n\n{}\n",
            self.ratios()
        );
        if self
            .cells
            .iter()
            .any(|cell| cell.product == Product::HelveSecured)
        {
            text += &format!(
                "\nSecured against helve: what is left with TLS, tokens, sealing and the audit log on:\n\n{}\n",
                self.secured()
            );
        }
        text
    }

    fn figures(&self) -> Table {
        let mut table = table(&[
            "workload",
            "callers",
            "product",
            "ops/s",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "server CPU s/1000",
            "client CPU s/1000",
            "bytes/op",
            "fsyncs/op",
        ]);
        for cell in &self.cells {
            let Figures {
                operations_per_second,
                p50_ms,
                p99_ms,
                p999_ms,
                server_cpu_seconds_per_1000,
                client_cpu_seconds_per_1000,
                written_bytes_per_operation,
                syncs_per_operation,
                ..
            } = &cell.median;
            table.add_row([
                cell.workload.title().to_owned(),
                cell.callers.to_string(),
                cell.product.name().to_owned(),
                format!("{operations_per_second:.0}"),
                format!("{p50_ms:.2}"),
                format!("{p99_ms:.2}"),
                format!("{p999_ms:.2}"),
                format!("{server_cpu_seconds_per_1000:.4}"),
                format!("{client_cpu_seconds_per_1000:.4}"),
                format!("{written_bytes_per_operation:.0}"),
                syncs_per_operation.map_or_else(|| "-".to_owned(), |syncs| format!("{syncs:.3}")),
            ]);
        }
        aligned(table, 3)
    }

    fn ratios(&self) -> Table {
        let mut table = table(&["workload", "callers", "rival", "ops/s", "p99"]);
        for cell in &self.cells {
            if matches!(cell.product, Product::Helve | Product::HelveSecured) {
                continue;
            }
            let Some(helve) = self.helve_beside(cell) else {
                continue;
            };
            table.add_row([
                cell.workload.title().to_owned(),
                cell.callers.to_string(),
                cell.product.name().to_owned(),
                ratio(helve, cell, |figures| figures.operations_per_second),
                ratio(helve, cell, |figures| figures.p99_ms),
            ]);
        }
        aligned(table, 3)
    }

    /// The other way round: of what Helve does without, how much is left.
    fn secured(&self) -> Table {
        let mut table = table(&["workload", "callers", "ops/s", "p99", "ops/s to reach"]);
        for cell in &self.cells {
            let Some(helve) = self.helve_beside(cell) else {
                continue;
            };
            if cell.product != Product::HelveSecured {
                continue;
            }
            table.add_row([
                cell.workload.title().to_owned(),
                cell.callers.to_string(),
                ratio(cell, helve, |figures| figures.operations_per_second),
                ratio(cell, helve, |figures| figures.p99_ms),
                secured_target(cell).map_or_else(|| "-".to_owned(), |least| format!("{least:.2}")),
            ]);
        }
        aligned(table, 2)
    }

    fn helve_beside(&self, cell: &Cell) -> Option<&Cell> {
        self.cells.iter().find(|other| {
            (other.workload, other.callers) == (cell.workload, cell.callers)
                && other.product == Product::Helve
        })
    }
}

fn ratio(one: &Cell, other: &Cell, figure: fn(&Figures) -> f64) -> String {
    format!("{:.2}", figure(&one.median) / figure(&other.median))
}

/// The least part of its speed that must be left of Helve with everything on, where that is promised.
fn secured_target(cell: &Cell) -> Option<f64> {
    let is_promised = matches!(
        cell.workload,
        Workload::Mint | Workload::Get | Workload::Cart
    );
    (is_promised && cell.callers == 64).then_some(0.85)
}
