//! `helve audit verify`: is the log as it was written?

use std::{fmt::Write as _, path::PathBuf};

use anyhow::anyhow;

use crate::{
    audit::{
        AuditKey, Head,
        verify::{Report, verify},
    },
    cli::{
        ending::{Ending, Outcome},
        output::{OutputArgs, table},
    },
};

/// Check that no line of an audit log was removed, changed or moved
///
/// Give all files of one log, in any order. Lines that were cut off at the end show only against a head that was noted elsewhere: this
/// command prints the head, and a node keeps it in `audit-head` of its data directory.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve audit verify audit.log*
  helve audit verify audit.log* --head \"$(cat data/audit-head)\" --output json

Exit status: 0 the log is whole, 1 it is not (the message names the file and the line), 2 a file cannot be read.")]
pub(crate) struct Args {
    /// The files of the log
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A line that must be there, as this command or a node's `audit-head` named it
    #[arg(long, env = "HELVE_AUDIT_HEAD", value_name = "SEQ:HASH")]
    head: Option<Head>,

    /// The file that holds the key that the log was written with
    #[arg(long, env = "HELVE_AUDIT_KEY_FILE", value_name = "FILE")]
    audit_key_file: Option<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// [`Ending::Absent`] if the log is not whole; else see [`Ending`].
pub(super) fn run(args: &Args) -> Outcome {
    let key = args.audit_key_file.as_deref().map(|path| {
        let key = AuditKey::read(path);
        key.map_err(|error| anyhow!("--audit-key-file {}: {error}", path.display()))
    });
    let key = key.transpose().map_err(Ending::Refused)?;
    let report = verify(&args.files, key.as_ref(), args.head);
    let report = report.map_err(|error| Ending::Refused(error.into()))?;
    args.output.print(&report, text)?;
    match &report.broken {
        None => Ok(()),
        Some(broken) => Err(Ending::Absent(anyhow!(
            "{}, line {}: {}",
            broken.file.display(),
            broken.line,
            broken.why
        ))),
    }
}

fn text(report: &Report) -> String {
    let mut files = table(&["FILE", "FIRST", "LINES"]);
    for section in &report.files {
        files.add_row([
            section.file.display().to_string(),
            section.first_seq.to_string(),
            section.lines.to_string(),
        ]);
    }
    let mut page = format!("{files}\n");
    if report.torn_bytes > 0 {
        let torn = report.torn_bytes;
        let _written = writeln!(page, "{torn} bytes of an unfinished line stand at the end");
    }
    if report.lost_calls > 0 {
        let lost = report.lost_calls;
        let _written = writeln!(page, "{lost} calls have no line, as the log itself says");
    }
    let whole = if report.broken.is_none() {
        "whole; head"
    } else {
        "broken; the last line that holds is"
    };
    if let Some(denied) = report.denied_head {
        let _written = writeln!(page, "calls that were turned away: head {denied}");
    }
    page + &format!("{whole} {}\n", report.head)
}
