//! What the suite prints: a line for each fault.

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use helve_tests::fault::all_required;
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
    /// What did not run as it should have for want of faults.
    dropped: Vec<String>,
    /// Faults of a round that did not strike for want of time.
    pub(crate) no_time: Vec<&'static str>,
    /// Least number of runs.
    pub(crate) runs_min: usize,
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
    /// Whether all held, and was enough to show anything.
    pub(crate) fn held(&self) -> bool {
        self.runs.iter().all(Ran::held)
            && self.failovers.as_ref().is_none_or(Failovers::held)
            && self.searches.iter().all(Search::held)
            && self.lacks().is_none()
    }

    /// Why what ran was not enough; `None` if it was.
    fn lacks(&self) -> Option<String> {
        if self.runs.is_empty() && self.failovers.is_none() && self.searches.is_empty() {
            return Some("nothing ran, which shows nothing".to_owned());
        }
        let (runs, runs_min) = (self.runs.len(), self.runs_min);
        if runs < runs_min {
            return Some(format!(
                "{runs} runs are too few to show anything: {runs_min} are needed"
            ));
        }
        let is_short = !self.no_time.is_empty() && all_required();
        is_short.then(|| "HELVE_REQUIRE_FAULTS=1, and some faults did not strike".to_owned())
    }

    /// Notes, and says at once, what does not run as it should.
    pub(crate) fn leave_out(&mut self, what: String) {
        eprintln!("LEFT OUT: {what}");
        self.dropped.push(what);
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
            failovers
                .troubles()
                .for_each(|trouble| println!("{trouble}"));
        }
        if !self.searches.is_empty() {
            println!("{}", planted::table(&self.searches));
        }
        for (fault, lacks) in &self.missing {
            println!("LEFT OUT: {fault}, which this machine cannot make: {lacks}");
        }
        for what in &self.dropped {
            println!("LEFT OUT: {what}");
        }
        if !self.no_time.is_empty() {
            println!("LEFT OUT for want of time: {}", self.no_time.join(", "));
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
        if !self.runs.is_empty() {
            let sum = |of: fn(&Ran) -> usize| self.runs.iter().map(of).sum::<usize>();
            println!(
                "{} runs, {} failed; {} records were judged, {} of them by the second judge, too",
                self.runs.len(),
                failed.len(),
                sum(|ran| ran.records),
                sum(|ran| ran.searched)
            );
        }
        println!("{:.0} s", self.seconds);
        if let Some(lacks) = self.lacks() {
            println!("FAILED: {lacks}");
        }
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
