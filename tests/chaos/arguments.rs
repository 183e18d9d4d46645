//! What the suite is asked to run.

use clap::{Parser, ValueEnum};

use crate::failovers::End;

/// Breaks clusters of real processes while clients work, and judges every answer.
#[derive(Debug, Parser)]
#[command(
    name = "chaos",
    after_long_help = "Without arguments the short part runs. Exit status: 0 all runs held, 1 a run was broken, undecided or void, or \
        too few ran to show anything. A fault that this machine cannot make is left out, and named; with HELVE_REQUIRE_FAULTS=1 none may \
        be left out."
)]
pub(crate) struct Arguments {
    /// The fixed short part, which `make test` runs
    #[arg(long)]
    pub(crate) short: bool,

    /// All faults, round after round, several in each run, each run with the next seed, until this
    /// many minutes are over
    #[arg(long, value_name = "N", conflicts_with_all = ["short", "hours"])]
    pub(crate) minutes: Option<f64>,

    /// With --minutes: least number of whole rounds, even if they take longer
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) rounds: usize,

    /// With --rounds: no run begins that may end after this many minutes; faults that have not
    /// struck by then are named
    #[arg(long, value_name = "MINUTES", requires = "rounds")]
    pub(crate) at_most: Option<f64>,

    /// As --minutes, in hours, and with seeds that were never run before
    #[arg(long, value_name = "N", conflicts_with = "short")]
    pub(crate) hours: Option<f64>,

    /// The first seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// How many seeds
    #[arg(long, value_name = "N", conflicts_with_all = ["minutes", "hours"])]
    pub(crate) seeds: Option<u64>,

    /// Number of nodes in each run, instead of the three or five that the seed draws
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=7))]
    pub(crate) nodes: Option<u64>,

    /// Only this fault; of several, one after the other in each run
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) fault: Vec<String>,

    /// Only these workloads, side by side in each run, instead of those that the seed draws
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) workload: Vec<String>,

    /// Number of failovers in a row, each measured, and nothing else
    #[arg(long, value_name = "N")]
    pub(crate) failovers: Option<u64>,

    /// How the leader ends in them
    #[arg(
        long,
        value_name = "HOW,...",
        value_delimiter = ',',
        value_enum,
        default_value = "killed,frozen,stopped"
    )]
    pub(crate) ends: Vec<End>,

    /// Shows that planted bugs are found: `all`, or the names of some; with --fault, runs that plan with the bug
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) planted: Vec<String>,

    /// Only print which faults and workloads there are
    #[arg(long)]
    pub(crate) list: bool,

    /// How to print what the runs came to
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Output,
}

impl Arguments {
    /// Whether a certain run is asked for.
    pub(crate) fn is_chosen(&self) -> bool {
        let names = [&self.fault, &self.workload, &self.planted];
        let numbers = [self.seed, self.seeds, self.nodes];
        numbers.iter().any(Option::is_some) || names.iter().any(|names| !names.is_empty())
    }
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}
