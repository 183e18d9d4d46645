//! What the suite prints: a line for each attack.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

use crate::{
    arguments::{Arguments, Output},
    measure::Calls,
};

/// The part of their speed that honest callers keep at least.
const SPEED_KEPT_MIN: f64 = 0.5;
/// The same in the short form, whose few seconds a busy machine can halve by itself.
const SHORT_SPEED_KEPT_MIN: f64 = 0.1;

/// What one attack cost, or several together.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) attacks: Vec<&'static str>,
    /// Of the table in `docs/attacks.md`.
    pub(crate) rows: Vec<&'static str>,
    pub(crate) heard: String,
    /// The most memory of one node.
    pub(crate) peak_bytes: u64,
    pub(crate) alone: Calls,
    /// Processors that the attackers took.
    pub(crate) processors: f64,
    /// Beside a burner that takes as many.
    pub(crate) reference: Calls,
    pub(crate) beside: Calls,
    /// How many calls of an operator were served meanwhile.
    pub(crate) operator: Result<usize, String>,
    /// Whether audit lines from before the attack are still there.
    pub(crate) history: Result<(), String>,
    pub(crate) died: Vec<u64>,
}

impl Row {
    fn speed_kept(&self) -> f64 {
        self.beside.per_second / self.reference.per_second.max(f64::MIN_POSITIVE)
    }

    /// Why the attack did harm; empty if it did none.
    fn harm(&self, speed_kept_min: f64) -> Vec<String> {
        let mut harm = Vec::new();
        if !self.died.is_empty() {
            harm.push(format!("nodes {:?} died", self.died));
        }
        if self.speed_kept() < speed_kept_min {
            let last = self.beside.last_failure.as_deref().unwrap_or("none failed");
            harm.push(format!(
                "honest callers kept {:.2} of their speed ({last})",
                self.speed_kept()
            ));
        }
        // Only a tenant that floods the audit log's queue may be refused for it.
        if self.beside.unrecorded > 0 {
            harm.push(format!(
                "{} honest calls were refused as AUDIT_FAILING",
                self.beside.unrecorded
            ));
        }
        // Measured after the attack: what it left behind would lower the speed that `kept` is
        // measured by.
        let after = self.reference.per_second / self.alone.per_second.max(f64::MIN_POSITIVE);
        if after < speed_kept_min {
            harm.push(format!(
                "honest callers had {after:.2} of their speed after the attack, beside a burner"
            ));
        }
        if let Err(error) = &self.operator {
            harm.push(format!("an operator was refused: {error}"));
        }
        if let Err(error) = &self.history {
            harm.push(format!("history was lost: {error}"));
        }
        harm
    }
}

/// All that the suite came to.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    limited_by: &'static str,
    speed_kept_min: f64,
    attacks: Vec<Row>,
}

impl Report {
    pub(crate) fn new(limited_by: &'static str, arguments: &Arguments) -> Self {
        Self {
            limited_by,
            speed_kept_min: if arguments.short {
                SHORT_SPEED_KEPT_MIN
            } else {
                SPEED_KEPT_MIN
            },
            attacks: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, row: Row) {
        for harm in row.harm(self.speed_kept_min) {
            eprintln!("HARM: {harm}");
        }
        self.attacks.push(row);
    }

    /// Whether no attack did harm.
    pub(crate) fn held(&self) -> bool {
        !self.attacks.is_empty()
            && self
                .attacks
                .iter()
                .all(|row| row.harm(self.speed_kept_min).is_empty())
    }

    pub(crate) fn print(&self, output: Output) -> Result<()> {
        match output {
            Output::Json => println!("{}", serde_json::to_string_pretty(self)?),
            Output::Table => println!(
                "{}\nMemory of each node: 1 GiB, by {}. Cores: what attackers take, and the burner, beside which honest callers do 1.00.",
                self.table(),
                self.limited_by
            ),
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "row", "attack", "peak MiB", "alone/s", "cores", "burner/s", "beside/s", "kept",
            "failed", "operator", "history", "heard",
        ]);
        for row in &self.attacks {
            let name = match row.attacks.as_slice() {
                [one] => (*one).to_owned(),
                many => format!("all {} at once", many.len()),
            };
            let number = if row.rows.len() == 1 { row.rows[0] } else { "" };
            table.add_row([
                number.to_owned(),
                name,
                (row.peak_bytes >> 20).to_string(),
                format!("{:.0}", row.alone.per_second),
                format!("{:.1}", row.processors),
                format!("{:.0}", row.reference.per_second),
                format!("{:.0}", row.beside.per_second),
                format!("{:.2}", row.speed_kept()),
                row.beside.failed.to_string(),
                row.operator
                    .as_ref()
                    .map_or("refused".to_owned(), |calls| format!("{calls} served")),
                row.history.as_ref().map_or("lost", |()| "kept").to_owned(),
                if row.rows.len() == 1 {
                    row.heard.clone()
                } else {
                    String::new()
                },
            ]);
        }
        for column in 2..9 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}
