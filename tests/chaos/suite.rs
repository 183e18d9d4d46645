//! Which runs the suite makes, one after the other.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use helve_tests::fault::{Company, left_out};
use rand::{SeedableRng as _, rngs::SmallRng, seq::SliceRandom as _};

use super::{arguments::Arguments, faults, outcome::Ran, plan::Plan, run::run, table::Report};

/// Number of faults that strike in a run of a round, one after the other...
const TOGETHER: usize = 4;
/// ...and fewer, if a round would have fewer runs than this.
const RUNS_MIN: usize = 20;

/// The fixed short part: a fault of each kind, two or three in a run. One run has five nodes.
const SHORT: [(u64, u64, &str); 6] = [
    (1, 3, "kill-leader,clock-jump-ahead,rolling-upgrade"),
    (2, 3, "power-loss-all,disk-full-one,torn-install"),
    (3, 5, "partition-leader-minority,reset-links,freeze-leader"),
    (4, 3, "joint-crash,repeated-calls"),
    (5, 3, "unsynced-majority,wiped-volume,abandoned-calls"),
    (6, 3, "lost-voter,snapshot-sender-killed,restored-disk"),
];

/// Runs that failed once. They stay in the short part.
const PAST: [(u64, u64, &str); 4] = [
    // Unmounting a disk waited for processes that held a copy of the mounts.
    (
        101,
        3,
        "members-added-removed,half-open,torn-rows,slow-disk",
    ),
    // A node that cannot open the next file for its rows stops, and says so; the fault took that for a broken promise.
    (
        105,
        3,
        "disk-full-all,install-switch-killed,no-open-files,flipped-rows",
    ),
    // A leader that had stood still took answers from before for a quorum's word, and read the past.
    (3, 3, "late-answers,freeze-leader"),
    // A snapshot failed for bytes that a file's length promised, and the node stopped.
    (
        31,
        3,
        "kill-follower,expiry-storm,read-only-disk,packet-loss",
    ),
];

/// The faults that this machine can make.
pub(crate) struct Faults {
    names: Vec<&'static str>,
    /// Those that strike alone.
    alone: Vec<&'static str>,
}

impl Faults {
    /// Those that it cannot make are noted in the report, unless the environment says that none may be left out.
    pub(crate) fn of_this_machine(report: &mut Report) -> Self {
        let (mut names, mut alone) = (Vec::new(), Vec::new());
        for fault in faults::all() {
            if let Some(lacks) = left_out(fault.name(), fault.missing()) {
                report.missing.insert(fault.name().to_owned(), lacks);
                continue;
            }
            names.push(fault.name());
            if fault.company() == Company::None {
                alone.push(fault.name());
            }
        }
        Self { names, alone }
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// The faults of each run of a round: each fault in one of them, distributed differently in
    /// each round.
    fn round(&self, seed: u64) -> Vec<Vec<&'static str>> {
        let is_social = |name: &&&str| !self.alone.contains(name);
        let mut social: Vec<_> = self.names.iter().filter(is_social).copied().collect();
        social.shuffle(&mut SmallRng::seed_from_u64(!seed));
        let least = RUNS_MIN.saturating_sub(self.alone.len()).max(1);
        let mut runs = vec![Vec::new(); social.len().div_ceil(TOGETHER).max(least)];
        let count = runs.len();
        for (number, name) in social.into_iter().enumerate() {
            runs[number % count].push(name);
        }
        runs.extend(self.alone.iter().map(|name| vec![*name]));
        runs.retain(|names| !names.is_empty());
        runs
    }
}

/// Runs one plan, and says so, and how to repeat it.
pub(crate) async fn one(plan: &Plan) -> Ran {
    eprintln!("{plan}\n  repeat it with: {}", plan.command());
    let ran = run(plan).await;
    say(&ran);
    ran
}

/// The fixed short part. A run goes without the faults that this machine cannot make.
pub(crate) async fn short(faults: &Faults, report: &mut Report) {
    for (seed, nodes, names) in PAST.into_iter().chain(SHORT) {
        let is_there = |name: &&str| faults.names.contains(name);
        let (there, missing): (Vec<_>, Vec<_>) = names.split(',').partition(is_there);
        if !missing.is_empty() {
            let without = missing.join(", ");
            report.leave_out(match there.as_slice() {
                [] => format!("seed {seed} of the short part does not run: no {without}"),
                _ => format!("seed {seed} of the short part runs without {without}"),
            });
        }
        if !there.is_empty() {
            let plan = Plan::draw(seed, &there, &[]).with_nodes(Some(nodes));
            report.runs.push(one(&plan).await);
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
            let round = faults.round(first);
            let turn = usize::try_from(number)? % round.len();
            Plan::draw(seed, &round[turn], &arguments.workload)
        } else {
            Plan::draw(seed, &names, &arguments.workload)
        };
        let plan = plan.with_nodes(arguments.nodes);
        let plant = arguments.planted.first().map(String::as_str);
        report.runs.push(one(&plan.with_plant(plant)).await);
    }
    Ok(())
}

/// Round after round until the time is over, but as many whole rounds as were asked for, unless even those take too long.
pub(crate) async fn rounds(
    time: Duration,
    arguments: &Arguments,
    faults: &Faults,
    report: &mut Report,
) {
    let begun = Instant::now();
    let mut seed = arguments.seed.unwrap_or(1);
    let mut longest = Duration::ZERO;
    let minutes = |minutes: f64| Duration::from_secs_f64(minutes * 60.0);
    let limit = arguments.at_most.map(minutes);
    report.runs_min = if arguments.rounds > 0 { RUNS_MIN } else { 1 };
    for round in 0.. {
        let dealt = faults.round(seed);
        for (number, names) in dealt.iter().enumerate() {
            let ends = begun.elapsed() + longest;
            if round >= arguments.rounds && ends >= time {
                return;
            }
            if limit.is_some_and(|limit| ends >= limit) {
                report.no_time = dealt[number..].concat();
                return;
            }
            let started = Instant::now();
            let plan = Plan::draw(seed, names, &arguments.workload).with_nodes(arguments.nodes);
            report.runs.push(one(&plan).await);
            seed += 1;
            longest = longest.max(started.elapsed());
        }
    }
}

fn say(ran: &Ran) {
    eprintln!(
        "  {}: {} answers to {} calls, {} in doubt, {} ms without an answer at most; {} records judged, {} by both judges; {:.1} s",
        ran.verdict.as_str(),
        ran.answered,
        ran.calls,
        ran.in_doubt,
        ran.unavailable_ms,
        ran.records,
        ran.searched,
        ran.seconds
    );
    for reason in ran.reasons.iter().take(5) {
        eprintln!("    {reason}");
    }
}
