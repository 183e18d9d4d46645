//! `helve completions`: for shells.

use clap::CommandFactory;
use clap_complete::Shell;
use helve_command::{
    ending::{Ending, Outcome},
    output,
};

use super::Cli;

/// Print a completion script for a shell
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve completions bash > /etc/bash_completion.d/helve
  helve completions zsh > ~/.zfunc/_helve
  helve completions fish > ~/.config/fish/completions/helve.fish")]
pub(crate) struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "helve", &mut script);
    output::line(&String::from_utf8_lossy(&script)).map_err(|error| Ending::Fatal(error.into()))
}
