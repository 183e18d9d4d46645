//! `helve token secret`: the text of a token, in a file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use zeroize::Zeroizing;

use crate::{
    cli::{
        ending::{Ending, Outcome},
        whole_file::{self, Readers, Replace},
    },
    config::token_text,
    stamp,
};

/// Make a token's text alone, for the first operator: name its file to every node as --operator-token-file
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token secret --out operator-token
  helve serve --auth tokens --operator-token-file operator-token ...

Exit status: 0 done, 2 the file is there already, or cannot be written.")]
pub(crate) struct SecretArgs {
    /// The file to write, which nobody else can read
    #[arg(long, env = "HELVE_OUT", value_name = "FILE")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(super) fn run(args: &SecretArgs) -> Outcome {
    let text = new().map_err(Ending::Fatal)?;
    let written = write(&args.out, &text).context("--out");
    written.map_err(Ending::Refused)
}

/// A token's text.
///
/// # Errors
/// If the operating system gives no randomness.
pub(in crate::cli) fn new() -> anyhow::Result<Zeroizing<String>> {
    Ok(token_text(&*stamp::secret_bytes()?))
}

/// Writes a token's text to a new file.
///
/// # Errors
/// If the file is there already, or cannot be written.
pub(in crate::cli) fn write(out: &Path, token: &str) -> anyhow::Result<()> {
    let line = Zeroizing::new(format!("{token}\n"));
    whole_file::write(out, line.as_bytes(), Readers::Owner, Replace::Never)
        .with_context(|| format!("{} cannot be written", out.display()))
}
