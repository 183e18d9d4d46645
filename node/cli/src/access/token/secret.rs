//! `helve token secret`: the text of a token, in a file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use helve_command::ending::{Ending, Outcome};
use helve_node::{config::token_text, stamp};
use zeroize::Zeroizing;

use crate::whole_file::{self, Readers, Replace};

/// Make only the text of a token, for the first operator: pass its file to every node as
/// --operator-token-file
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve token secret --out operator-token
  helve serve --auth tokens --operator-token-file operator-token ...

Exit status: 0 done, 2 the file exists already, or cannot be written.")]
pub(crate) struct SecretArgs {
    /// File to write, readable by you alone
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
pub(crate) fn new() -> anyhow::Result<Zeroizing<String>> {
    Ok(token_text(&*stamp::secret_bytes()?))
}

/// Writes a token's text to a new file.
///
/// # Errors
/// If the file is there already, or cannot be written.
pub(crate) fn write(out: &Path, token: &str) -> anyhow::Result<()> {
    let line = Zeroizing::new(format!("{token}\n"));
    whole_file::write(out, line.as_bytes(), Readers::Owner, Replace::Never)
        .with_context(|| format!("{} cannot be written", out.display()))
}
