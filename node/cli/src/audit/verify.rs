//! `helve audit verify`: is the log as it was written?

use std::{fmt::Write as _, io, path::PathBuf};

use anyhow::anyhow;
use helve_command::{
    ending::{Ending, Outcome},
    output::{OutputArgs, bytes, count, table},
};
use helve_node::audit::{
    AuditKey, Head,
    verify::{Report, verify},
};

/// Check that no line of an audit log was removed, changed or moved
///
/// Give all files of one log, in any order. Lines that were cut off at the end can be detected only
/// with a head that was noted elsewhere. This command prints the head, and a node keeps it in
/// `audit-head` of its data directory.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve audit verify audit.log*
  helve audit verify audit.log* --head \"$(cat data/audit-head)\" --output json

Exit status: 0 the log is whole, 1 it is not (the message names the file and the line), 2 a file cannot be read.")]
pub(crate) struct Args {
    /// Files of the log
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Head that must be in the log, as this command or a node's `audit-head` printed it
    #[arg(long, env = "HELVE_AUDIT_HEAD", value_name = "SEQ:HASH")]
    head: Option<Head>,

    /// File with the key that the log was written with
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
    let report = report.map_err(|error| Ending::Refused(anyhow!("{error}{}", advice(&error))))?;
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

/// What to do about a file that cannot be read.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::IsADirectory => "; name the files of the log in it, such as DIR/audit.log*",
        io::ErrorKind::NotFound => "; name the files of the log, as --audit-log of the node does",
        io::ErrorKind::PermissionDenied => "; run the command as a user that may read it",
        _ => "",
    }
}

fn text(report: &Report) -> String {
    let mut files = table(&["FILE", "FIRST", "LINES"]);
    for section in &report.files {
        files.add_row([
            section.file.display().to_string(),
            section
                .first_seq
                .map_or("-".to_owned(), |seq| seq.to_string()),
            count(section.lines),
        ]);
    }
    let mut page = format!("{files}\n");
    if report.torn_bytes > 0 {
        let torn = bytes(report.torn_bytes);
        let _written = writeln!(page, "{torn} of an unfinished line are at the end");
    }
    if report.lost_calls > 0 {
        let lost = count(report.lost_calls);
        let _written = writeln!(page, "{lost} calls have no line, as the log itself says");
    }
    let whole = if report.broken.is_none() {
        "whole; head"
    } else {
        "broken; the last valid line is"
    };
    if let Some(denied) = report.denied_head {
        let _written = writeln!(page, "refused calls: head {denied}");
    }
    page + &format!("{whole} {}\n", report.head)
}

#[cfg(test)]
mod tests {
    use helve_node::audit::verify::Section;

    use super::*;

    #[test]
    fn file_that_is_no_log_has_no_first_line_and_one_that_cannot_be_read_a_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("page");
        std::fs::write(&file, "<html>\n</html>\n").unwrap();
        let report = verify(&[file], None, None).unwrap();
        assert_eq!(report.files[0].first_seq, None);
        let page = text(&report);
        assert!(!page.contains("18446744073709551615"), "{page}");
        let json = serde_json::to_value(&report).unwrap();
        assert!(json["files"][0]["first_seq"].is_null(), "{json}");
        let path = directory.path().to_owned();
        let named = path.display().to_string();
        let error = verify(&[path], None, None).unwrap_err();
        assert!(error.to_string().contains(&named), "{error}");
        assert!(advice(&error).contains("name the files"), "{error}");
    }

    #[test]
    fn lines_and_bytes_are_told_in_units() {
        let section = Section {
            lines: 12_345_678,
            ..Section::default()
        };
        let page = text(&Report {
            files: vec![section],
            lost_calls: 12_345_678,
            torn_bytes: 12_345_678,
            ..Report::default()
        });
        assert_eq!(page.matches("12.35M").count(), 2, "{page}");
        assert!(page.contains("11.8 MiB of an unfinished line"), "{page}");
    }
}
