//! What the suite prints: a line for each fault.

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

use super::{
    arguments::Output,
    failovers::Failovers,
    outcome::{Ran, Struck, Verdict},
    planted::{self, Search},
};

/// All that a suite came to.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: Vec<Ran>,
    pub(crate) failovers: Option<Failovers>,
    /// Searches for planted bugs.
    pub(crate) searches: Vec<Search>,
    /// Faults that this machine cannot make, and what it lacks.
    pub(crate) missing: BTreeMap<String, String>,
    pub(crate) seconds: f64,
}

/// The runs of one fault. What was broken in a run counts for each fault that struck in it: the suite cannot tell which one did it.
#[derive(Debug, Default)]
struct Row {
    runs: usize,
    strikes: usize,
    answered: usize,
    in_doubt: usize,
    unavailable_ms: u64,
    majority_served_ms: u64,
    lost: usize,
    doubled: usize,
    stale: usize,
    wrong: usize,
    undecided: usize,
    void: usize,
}

impl Report {
    /// Whether all held.
    pub(crate) fn held(&self) -> bool {
        self.runs.iter().all(Ran::held)
            && self.failovers.as_ref().is_none_or(Failovers::held)
            && self.searches.iter().all(Search::held)
    }

    pub(crate) fn print(&self, output: Output) -> Result<()> {
        match output {
            Output::Json => println!("{}", serde_json::to_string_pretty(self)?),
            Output::Table => self.print_tables(),
        }
        Ok(())
    }

    fn print_tables(&self) {
        if !self.runs.is_empty() {
            println!("{}", table(&self.runs));
        }
        if let Some(failovers) = &self.failovers {
            println!("{}", failovers.table());
        }
        if !self.searches.is_empty() {
            println!("{}", planted::table(&self.searches));
        }
        for (fault, lacks) in &self.missing {
            println!("{fault} did not run on this machine: {lacks}");
        }
        let failed: Vec<_> = self.runs.iter().filter(|ran| !ran.held()).collect();
        for ran in &failed {
            println!(
                "\nseed {}, {}: {}",
                ran.seed,
                ran.faults.join(", "),
                ran.verdict.as_str()
            );
            for reason in ran.reasons.iter().take(10) {
                println!("  {reason}");
            }
            println!("  repeat it with: {}", ran.command);
            if let Some(kept) = &ran.kept {
                println!("  history and logs: {}", kept.display());
            }
        }
        println!(
            "{} runs, {} failed, in {:.0} s",
            self.runs.len(),
            failed.len(),
            self.seconds
        );
    }
}

fn table(runs: &[Ran]) -> Table {
    let mut rows = BTreeMap::<String, Row>::new();
    let mut all = Row::default();
    for ran in runs {
        for fault in &ran.faults {
            let strikes = ran.strikes.iter().filter(|strike| strike.fault == *fault);
            rows.entry(fault.clone()).or_default().add(ran, strikes);
        }
        all.add(ran, ran.strikes.iter());
        // What was answered between strikes counts, too.
        let in_strikes: usize = ran.strikes.iter().map(|strike| strike.answered).sum();
        all.answered += ran.answered.saturating_sub(in_strikes);
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "fault",
        "runs",
        "strikes",
        "operations",
        "in doubt in these runs",
        "longest unavailability, s",
        "a majority served after, s",
        "lost",
        "doubled",
        "stale",
        "otherwise wrong",
        "undecided",
        "void",
    ]);
    for (name, row) in rows {
        table.add_row(row.cells(&name));
    }
    table.add_row(all.cells("all"));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

impl Row {
    fn add<'a>(&mut self, ran: &Ran, strikes: impl Iterator<Item = &'a Struck>) {
        self.runs += 1;
        for strike in strikes {
            self.strikes += usize::from(strike.seen.is_some());
            self.answered += strike.answered;
            self.unavailable_ms = self.unavailable_ms.max(strike.unavailable_ms);
        }
        self.in_doubt += ran.in_doubt;
        self.majority_served_ms = self.majority_served_ms.max(ran.majority_served_ms);
        self.lost += ran.lost;
        self.doubled += ran.doubled;
        self.stale += ran.stale;
        self.wrong += ran.wrong;
        self.undecided += usize::from(ran.verdict == Verdict::Undecided);
        self.void += usize::from(ran.verdict == Verdict::Void);
    }

    fn cells(&self, name: &str) -> [String; 13] {
        [
            name.to_owned(),
            self.runs.to_string(),
            self.strikes.to_string(),
            self.answered.to_string(),
            self.in_doubt.to_string(),
            seconds(self.unavailable_ms),
            seconds(self.majority_served_ms),
            self.lost.to_string(),
            self.doubled.to_string(),
            self.stale.to_string(),
            self.wrong.to_string(),
            self.undecided.to_string(),
            self.void.to_string(),
        ]
    }
}

/// Milliseconds as seconds with two decimals.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{:02}", ms / 1000, ms % 1000 / 10)
}
