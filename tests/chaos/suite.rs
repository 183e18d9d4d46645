//! Which runs the suite makes, one after the other.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use helve_tests::fault::left_out;

use super::{arguments::Arguments, faults, outcome::Ran, plan::Plan, run::run, table::Report};

/// Every so many-th run of a round strikes with several faults in turn.
const SEVERAL: u64 = 6;

/// The fixed short part: a seed and a fault of each kind, and several in turn.
const SHORT: [(u64, &str); 12] = [
    (1, "kill-leader"),
    (2, "power-loss-all"),
    (3, "partition-leader-minority"),
    (4, "freeze-leader"),
    (5, "wiped-volume"),
    (6, "clock-jump-ahead"),
    (7, "torn-install"),
    (8, "reset-links"),
    (9, "unsynced-majority"),
    (10, "disk-full-one"),
    (11, "lost-voter"),
    (12, "kill-leader,flapping-links,restart-all"),
];

/// Runs that failed once, for the bug that is named. They stay in the short part.
const PAST: [(u64, &str); 0] = [];

/// The faults that this machine can make.
pub(crate) struct Faults {
    names: Vec<&'static str>,
}

impl Faults {
    /// Those that it cannot make are noted in the report, unless the environment says that none may be left out.
    pub(crate) fn of_this_machine(report: &mut Report) -> Self {
        let mut names = Vec::new();
        for fault in faults::all() {
            match left_out(fault.missing()) {
                None => names.push(fault.name()),
                Some(lacks) => {
                    report.missing.insert(fault.name().to_owned(), lacks);
                }
            }
        }
        Self { names }
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The plan of one run of a round: each fault by itself in turn, and every now and then several.
    fn plan(&self, number: u64, seed: u64, workloads: &[String]) -> Plan {
        if number % SEVERAL == SEVERAL - 1 {
            return Plan::draw(seed, &Plan::draw_faults(seed, &self.names), workloads);
        }
        let turn = number - number / SEVERAL;
        let count = self.names.len() as u64;
        let turn = usize::try_from(turn % count).expect("there are few faults");
        Plan::draw(seed, &[self.names[turn]], workloads)
    }

    /// How many runs a round takes.
    fn round(&self) -> u64 {
        let singles = self.names.len() as u64;
        singles + singles.div_ceil(SEVERAL - 1)
    }
}

/// Runs one plan, and says so.
pub(crate) async fn one(plan: &Plan) -> Ran {
    eprintln!("{plan}");
    let ran = run(plan).await;
    say(&ran);
    ran
}

/// The fixed short part.
pub(crate) async fn short(faults: &Faults, report: &mut Report) {
    for (seed, names) in PAST.into_iter().chain(SHORT) {
        let names: Vec<_> = names.split(',').collect();
        if names.iter().all(|name| faults.names.contains(name)) {
            report.runs.push(one(&Plan::draw(seed, &names, &[])).await);
        }
    }
}

/// The seeds, faults and workloads that were asked for.
///
/// # Errors
///
/// If there is no such fault on this machine.
pub(crate) async fn chosen(
    arguments: &Arguments,
    faults: &Faults,
    report: &mut Report,
) -> Result<()> {
    let first = arguments.seed.unwrap_or(1);
    for name in &arguments.fault {
        ensure!(
            faults.names.contains(&name.as_str()),
            "there is no fault {name} on this machine; there are {:?}",
            faults.names
        );
    }
    for number in 0..arguments.seeds.unwrap_or(1) {
        let seed = first + number;
        let names: Vec<&str> = arguments.fault.iter().map(String::as_str).collect();
        let plan = if names.is_empty() {
            faults.plan(seed, seed, &arguments.workload)
        } else {
            Plan::draw(seed, &names, &arguments.workload)
        };
        let plant = arguments.planted.first().map(String::as_str);
        report.runs.push(one(&plan.with_plant(plant)).await);
    }
    Ok(())
}

/// Round after round until the time is over, but all faults and so many seeds at least.
pub(crate) async fn rounds(
    time: Duration,
    arguments: &Arguments,
    faults: &Faults,
    report: &mut Report,
) {
    let begun = Instant::now();
    let first = arguments.seed.unwrap_or(1);
    let least = faults.round().max(arguments.seeds.unwrap_or(1));
    let mut longest = Duration::ZERO;
    let mut number = 0;
    while number < least || begun.elapsed() + longest < time {
        let started = Instant::now();
        let plan = faults.plan(number, first + number, &arguments.workload);
        report.runs.push(one(&plan).await);
        longest = longest.max(started.elapsed());
        number += 1;
    }
}

fn say(ran: &Ran) {
    eprintln!(
        "  {}: {} answers to {} calls, {} in doubt, {} ms without an answer at most, {:.1} s",
        ran.verdict.as_str(),
        ran.answered,
        ran.calls,
        ran.in_doubt,
        ran.unavailable_ms,
        ran.seconds
    );
    for reason in ran.reasons.iter().take(5) {
        eprintln!("    {reason}");
    }
    if !ran.held() {
        eprintln!("    repeat it with: {}", ran.command);
    }
}
