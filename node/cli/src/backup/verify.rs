//! `helve backup verify`: are the files as they were written?

use std::path::PathBuf;

use anyhow::anyhow;
use helve_command::{
    ending::{Ending, Outcome, said},
    output::{OutputArgs, bytes, harmless},
};
use helve_node::{
    backup::{Backup, BackupError, place::Place},
    vault::Migration,
};
use serde::Serialize;

use super::{bucket::BucketArgs, failed::unread};
use crate::{data_key::DataKeyFileArgs, progress::Progress};

/// Check that the files of backups are as they were written
///
/// Reads every file, and compares its checksum; without --backup, those of the archived log too, and
/// that no entry is missing between them. With data keys, it also checks that a node which held one
/// of them made each backup, and sent each entry. `helve restore` compares the digest of the rows, too.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve backup verify /backup/helve
  helve backup verify /backup/helve --data-keys /etc/helve/keys
  helve backup verify /backup/helve --backup 8c2f11d0-120934 --output json

Exit status: 0 all are whole, 1 some are not (the output names each file or backup), 2 the place holds no backups, or cannot be
read, 4 its disk or store fails.")]
pub(super) struct Args {
    /// Directory of backups, or `s3://BUCKET/PREFIX`
    #[arg(value_name = "TO")]
    to: PathBuf,

    #[command(flatten)]
    bucket: BucketArgs,

    /// Id of the backup to check; by default all of them
    #[arg(long, env = "HELVE_BACKUP", value_name = "ID")]
    backup: Option<String>,

    #[command(flatten)]
    data_keys: DataKeyFileArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Report {
    backups: usize,
    bytes: u64,
    /// What is wrong, of each file.
    problems: Vec<String>,
}

pub(super) async fn run(args: &Args) -> Outcome {
    let place = Place::open(&args.to, args.bucket.http()).map_err(unread)?;
    let mut problems = Vec::new();
    let mut backups: Vec<Backup> = Vec::new();
    if let Some(id) = args.backup.as_deref() {
        match place.find(Some(id)).await {
            Err(error @ (BackupError::NoSuch { .. } | BackupError::Store(_))) => {
                return Err(unread(error));
            }
            found => take(found, &mut backups, &mut problems),
        }
    } else {
        for listed in place.list().await.map_err(unread)? {
            take(listed.backup, &mut backups, &mut problems);
        }
    }
    let keys = args.data_keys.is_any().then(|| {
        let keys = args.data_keys.files(Migration::Refused).read();
        keys.map_err(|refusal| Ending::Refused(refusal.into()))
    });
    let keys = keys.transpose()?;
    if let Some(keys) = &keys {
        let unproven = backups.iter().filter_map(|it| it.check_proof(keys).err());
        problems.extend(unproven.map(|error| said(&error)));
    }
    let backups: Vec<_> = backups.iter().collect();
    let mut progress = Progress::new("bytes checked");
    let mut read = 0;
    let damaged = place.verify(&backups, |bytes| {
        read += bytes;
        progress.show(read);
    });
    let mut damaged = damaged.await.map_err(unread)?;
    if args.backup.is_none() {
        let of_log = place.verify_log(keys.as_ref(), |bytes| {
            read += bytes;
            progress.show(read);
        });
        damaged.extend(of_log.await.map_err(unread)?);
    }
    drop(progress);
    problems.extend(damaged.iter().map(|error| said(error)));
    let report = Report {
        backups: backups.len(),
        bytes: read,
        problems,
    };
    args.output.print(&report, text)?;
    match report.problems.len() {
        0 => Ok(()),
        count => Err(Ending::Absent(anyhow!(
            "{count} files or backups in {} cannot be used",
            place.path().display()
        ))),
    }
}

fn take(found: Result<Backup, BackupError>, backups: &mut Vec<Backup>, problems: &mut Vec<String>) {
    match found {
        Ok(backup) => backups.push(backup),
        Err(error) => problems.push(said(&error)),
    }
}

/// A count and what is counted, in the singular for one.
fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

fn text(report: &Report) -> String {
    let mut page = format!(
        "{}, {} read, {}",
        counted(report.backups, "backup"),
        bytes(report.bytes),
        counted(report.problems.len(), "problem"),
    );
    for problem in &report.problems {
        page.push('\n');
        page.push_str(&harmless(problem));
    }
    page
}
