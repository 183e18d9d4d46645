//! Shows that the suite sees: each planted bug is found by the chaos test that is there for it, and the same seeds hold without it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

use super::{
    cases::{CASES, Case},
    outcome::{Ran, Verdict},
    suite,
};

/// A bug must be found within this many seeds...
const SEEDS: u64 = 20;
/// ...and so much time.
const TIME: Duration = Duration::from_secs(180);

/// Characters of a finding in the table; JSON has all of them.
const FINDING_CHARS_MAX: usize = 100;

/// Whether a bug was found.
#[derive(Debug, Serialize)]
pub(crate) struct Search {
    planted: &'static str,
    test: String,
    /// The seed of the run that found it.
    found_by: Option<u64>,
    /// What that run said of the harm that the bug does.
    finding: String,
    /// What runs found that is another harm, and so does not count.
    besides: Vec<String>,
    seeds: u64,
    seconds: f64,
    /// The same seeds without the bug that did not hold, and why.
    unplanted_failed: Vec<String>,
}

impl Search {
    pub(crate) fn held(&self) -> bool {
        self.found_by.is_some() && self.in_time() && self.unplanted_failed.is_empty()
    }

    /// A run that began in time may still have ended too late.
    fn in_time(&self) -> bool {
        self.seconds <= TIME.as_secs_f64()
    }
}

/// Searches for bugs of these names; `all`: for all of them.
///
/// # Errors
///
/// If there is no such bug.
pub(crate) async fn search(names: &[String], first_seed: u64) -> Result<Vec<Search>> {
    for name in names {
        ensure!(
            name == "all" || CASES.iter().any(|case| case.plant == name),
            "no chaos test is there for a bug {name}; there are {:?}",
            CASES.map(|case| case.plant)
        );
    }
    let is_chosen = |case: &&Case| names.iter().any(|name| name == "all" || name == case.plant);
    let mut searches = Vec::new();
    for case in CASES.iter().filter(is_chosen) {
        searches.push(case.search(first_seed).await);
    }
    Ok(searches)
}

impl Case {
    async fn search(&self, first_seed: u64) -> Search {
        let begun = Instant::now();
        let mut search = Search {
            planted: self.plant,
            test: format!(
                "{} under {}",
                self.workloads.join(" + "),
                self.faults.join(", ")
            ),
            found_by: None,
            finding: String::new(),
            besides: Vec::new(),
            seeds: 0,
            seconds: 0.0,
            unplanted_failed: Vec::new(),
        };
        while search.found_by.is_none() && search.seeds < SEEDS && begun.elapsed() < TIME {
            let seed = first_seed + search.seeds;
            search.seeds += 1;
            let ran = suite::one(&self.plan(seed).with_plant(Some(self.plant))).await;
            // A run in which the bug's line was not executed is void, whatever it found.
            if ran.verdict == Verdict::Broken && ran.plant_executed {
                match self.harm_in(&ran.reasons) {
                    Some(finding) => {
                        search.found_by = Some(seed);
                        search.finding.clone_from(finding);
                    }
                    None => search.besides.extend(ran.reasons),
                }
            }
        }
        search.seconds = begun.elapsed().as_secs_f64();
        for seed in first_seed..first_seed + search.seeds {
            let ran: Ran = suite::one(&self.plan(seed)).await;
            if !ran.held() {
                let why = ran.reasons.first().cloned().unwrap_or_default();
                search.unplanted_failed.push(format!("seed {seed}: {why}"));
            }
        }
        search
    }
}

/// So much of what was said as a table holds.
fn first_line(said: &str) -> String {
    let line = said.lines().next().unwrap_or_default();
    line.chars().take(FINDING_CHARS_MAX).collect()
}

/// A line for each bug.
pub(crate) fn table(searches: &[Search]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "planted bug",
        "chaos test",
        "found by seed",
        "seeds",
        "seconds",
        "without it",
        "finding",
    ]);
    for search in searches {
        let found = match search.found_by {
            Some(seed) if search.in_time() => seed.to_string(),
            Some(seed) => format!("{seed}, TOO LATE"),
            None => "NOT FOUND".to_owned(),
        };
        let without = match search.unplanted_failed.as_slice() {
            [] => "all held".to_owned(),
            failed => failed.join("; "),
        };
        table.add_row([
            search.planted.to_owned(),
            search.test.clone(),
            found,
            search.seeds.to_string(),
            format!("{:.0}", search.seconds),
            without,
            first_line(match search.besides.first() {
                Some(other) if search.finding.is_empty() => other,
                _ => &search.finding,
            }),
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
