//! What the suite is asked to run.

use clap::{Parser, ValueEnum};

/// Attacks a cluster of real processes, each under a memory limit of 1 GiB, and says what it cost.
#[derive(Debug, Parser)]
#[command(
    name = "attack",
    after_long_help = "Exit status: 0 every node stayed up, the honest tenant kept its share of speed and the operator was served; 1 not so."
)]
pub(crate) struct Arguments {
    /// The short form, which `make test` runs
    #[arg(long)]
    pub(crate) short: bool,

    /// How long each attack goes on
    #[arg(long, value_name = "N", default_value = "20", conflicts_with = "short")]
    pub(crate) seconds: u64,

    /// These attacks alone, by name
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// What to print
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}
