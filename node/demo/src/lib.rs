//! What exists to show Helve: the demo, cart flows, the example cart server, its balancer and the
//! benchmark load.
//!
//! The binary `helve` links these commands in by its feature `demo`, which is on by default. No
//! other command calls them: a node starts and runs without this crate.

#![deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "these panic where nothing can be written: helve_command::output does not"
)]

mod balancer;
mod bench;
mod cart;
mod demo;
mod findings;
mod flows;

use helve_command::ending::Outcome;

/// The commands that exist to show.
#[expect(
    missing_docs,
    reason = "the arguments of each command say what it does: a comment here would replace its help"
)]
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    // First in the help.
    #[command(display_order = 0)]
    Demo(Box<demo::Args>),
    Cart(Box<cart::Args>),
    Balancer(balancer::Args),
    Flows(flows::Args),
    Bench(bench::Args),
}

impl Command {
    /// Returns whether it writes callers' values to files of its own.
    #[must_use]
    pub fn keeps_values(&self) -> bool {
        matches!(self, Self::Cart(_))
    }

    /// Runs the command.
    ///
    /// # Errors
    /// See [`Ending`](helve_command::ending::Ending).
    pub async fn run(self) -> Outcome {
        match self {
            Self::Demo(args) => demo::run(&args).await,
            Self::Cart(args) => cart::run(&args).await,
            Self::Balancer(args) => balancer::run(&args).await,
            Self::Flows(args) => flows::run(&args).await,
            Self::Bench(args) => bench::run(&args).await,
        }
    }
}
