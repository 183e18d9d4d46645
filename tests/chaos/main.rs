//! The chaos suite: clusters of real processes, broken by plan while clients work, every answer judged. Each run is drawn from a
//! seed and prints the command that repeats it.

mod archive;
mod arguments;
mod armed;
mod cases;
mod coverage;
mod crash_points;
mod failovers;
mod faults;
mod joint_crash;
mod keep;
mod load;
mod lost_voter;
mod measure;
mod nemesis;
mod outcome;
mod plan;
mod planted;
mod recovery;
mod restored_disk;
mod run;
mod snapshots;
mod suite;
mod table;
mod verdict;
mod written;

use std::{
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use arguments::Arguments;
use clap::Parser as _;
use helve_tests::workload;
use suite::Faults;
use table::Report;

/// Failovers of the short part.
const SHORT_FAILOVERS: u64 = 10;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match go(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all held.
async fn go(mut arguments: Arguments) -> Result<bool> {
    let begun = Instant::now();
    let mut report = Report::default();
    coverage::check(&faults::all().iter().map(|f| f.name()).collect::<Vec<_>>())?;
    cases::check()?;
    let faults = Faults::of_this_machine(&mut report);
    if arguments.list {
        println!("{}", coverage::table());
        println!("faults on this machine: {}", faults.names().join(" "));
        println!("workloads: {}", workload::names().join(" "));
        return Ok(true);
    }
    if let Some(count) = arguments.failovers {
        let seed = arguments.seed.unwrap_or(1);
        report.failovers = Some(failovers::run(count, seed, &arguments.ends).await?);
    } else if !arguments.planted.is_empty() && arguments.fault.is_empty() {
        let seed = arguments.seed.unwrap_or(1);
        report.searches = planted::search(&arguments.planted, seed).await?;
    } else if let Some(hours) = arguments.hours {
        let fresh = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        arguments.seed.get_or_insert(fresh);
        let time = Duration::from_secs_f64(hours * 3600.0);
        suite::rounds(time, &arguments, &faults, &mut report).await;
    } else if let Some(minutes) = arguments.minutes {
        let time = Duration::from_secs_f64(minutes * 60.0);
        suite::rounds(time, &arguments, &faults, &mut report).await;
    } else if arguments.is_chosen() {
        suite::chosen(&arguments, &faults, &mut report).await?;
    } else {
        suite::short(&faults, &mut report).await;
        report.failovers = Some(failovers::run(SHORT_FAILOVERS, 1, &arguments.ends).await?);
    }
    report.seconds = begun.elapsed().as_secs_f64();
    report.print(arguments.output)?;
    Ok(report.held())
}
