//! `helve restore`: a new cluster out of a backup.

use std::path::PathBuf;

use helve_command::{
    ending::{Ending, Outcome},
    output::{OutputArgs, count, time},
};
use helve_node::{
    backup::Until,
    node::{
        recover::RecoverError,
        restore::{Report, Request, RestoreError, restore},
    },
    storage::data_dir::DataDirError,
    vault::Migration,
};

use crate::{
    backup::{self, BucketArgs},
    data_key::DataKeyFileArgs,
    instant,
    progress::Progress,
    recover,
};

/// Make a new cluster of a backup
///
/// Writes the data directory of the new cluster's first node, with a new cluster id. Tokens,
/// tenants, quotas and records are as they were at the backup, or at the point in time that is asked
/// for, if `helve backup --follow` has archived the log up to it. Time that has passed since counts:
/// records whose lifetimes have ended meanwhile expire when the node starts. The command checks
/// every file, and the digest of the rows.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve restore /backup/helve --data-dir /var/lib/helve
  helve restore /backup/helve --backup 8c2f11d0-120934 --data-dir /var/lib/helve --data-keys /etc/helve/keys
  helve restore s3://backups/helve --data-dir /var/lib/helve
  helve restore /backup/helve --to-time 2026-11-28T12:00:00Z --data-dir /var/lib/helve
  helve restore /backup/helve --to-latest --data-dir /var/lib/helve
  helve serve --id 1 --data-dir /var/lib/helve --peers 1=node1:7401,2=node2:7401,3=node3:7401
  helve member add --seat 2 --peer node2:7401

Exit status: 0 done, 2 refused: the backup is damaged, too new, or needs a data key that is not given, the archived log does not
reach what is asked for, or the data directory is not empty or is another user's, 4 a disk or a store fails.")]
pub(crate) struct Args {
    /// Directory of backups, or `s3://BUCKET/PREFIX`
    #[arg(value_name = "FROM")]
    from: PathBuf,

    #[command(flatten)]
    bucket: BucketArgs,

    /// Id of the backup; by default the newest one, or the newest that is as old as what is asked for
    #[arg(long, env = "HELVE_BACKUP", value_name = "ID")]
    backup: Option<String>,

    #[command(flatten)]
    until: UntilArgs,

    /// Data directory of the new node: a new or an empty one
    #[arg(long, env = "HELVE_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,

    /// Seat of the new node: its number in --peers
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u64).range(1..), env = "HELVE_ID", value_name = "SEAT")]
    id: u64,

    #[command(flatten)]
    data_keys: DataKeyFileArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Up to where, by the archived log.
#[derive(Debug, Clone, clap::Args)]
#[group(multiple = false)]
struct UntilArgs {
    /// Last revision to restore, by the archived log
    #[arg(long, env = "HELVE_TO_REVISION", value_name = "N")]
    to_revision: Option<u64>,

    /// Time up to which to restore, by the archived log and the cluster's time (RFC 3339)
    #[arg(long, env = "HELVE_TO_TIME", value_parser = instant::parse, value_name = "TIME")]
    to_time: Option<u64>,

    /// Restore all that the archived log has behind the newest backup
    #[arg(long, env = "HELVE_TO_LATEST")]
    to_latest: bool,
}

impl UntilArgs {
    fn until(&self) -> Option<Until> {
        let latest = self.to_latest.then_some(Until::Latest);
        let revision = self.to_revision.map(Until::Revision);
        revision.or(self.to_time.map(Until::Time)).or(latest)
    }
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn run(args: &Args) -> Outcome {
    let request = Request {
        from: &args.from,
        http: args.bucket.http(),
        backup: args.backup.as_deref(),
        until: args.until.until(),
        data_dir: &args.data_dir,
        seat: args.id,
        data_keys: args.data_keys.files(Migration::Refused),
    };
    let mut progress = Progress::new("checked and copied");
    let mut read = 0;
    let report = restore(&request, |bytes| {
        read += bytes;
        progress.show(read);
    });
    let report = report.await;
    drop(progress);
    let report = report.map_err(ending)?;
    args.output.print(&report, text)
}

/// A disk that fails, as one that is full does, or an operating system that gives no entropy: these
/// are no faults of the command, and the help lists them under another status. A directory that
/// this user may not write is one: another user may run the command.
fn ending(error: RestoreError) -> Ending {
    match error {
        RestoreError::Storage(_)
        | RestoreError::Entropy(_)
        | RestoreError::DiskKey(_)
        | RestoreError::DataDir(DataDirError::Io { .. })
        | RestoreError::Founding(RecoverError::Storage(_)) => Ending::Fatal(error.into()),
        RestoreError::Founding(founding) => recover::ending(founding),
        RestoreError::Backup(backup) => backup::unread(backup),
        _ => Ending::Refused(error.into()),
    }
}

fn text(report: &Report) -> String {
    let Report {
        backup,
        former_cluster_id,
        backup_revision,
        revision,
        clock_ms,
        rows,
        digest,
        cluster_id,
        data_dir,
        node_id,
        seat,
    } = report;
    let archived = match revision - backup_revision {
        0 => "as they were backed up".to_owned(),
        entries => format!("with {} archived entries behind the backup", count(entries)),
    };
    format!(
        "backup {backup} of cluster {former_cluster_id}, up to entry {revision}, {}\n\
         {} rows, digest {digest}: {archived}\n\
         new cluster {cluster_id}, node {node_id}, seat {seat}, in {}\n\
         next: start this node (`helve serve --id {seat} ...`), then the others with empty directories, and add each: `helve member add \
         --seat SEAT --peer HOST:PORT`",
        time(*clock_ms),
        count(*rows),
        data_dir.display(),
    )
}

#[cfg(test)]
mod tests {
    use std::io;

    use helve_node::{backup::BackupError, config::Refusal};

    use super::*;

    #[test]
    fn full_disk_is_no_fault_of_the_command() {
        let full = || DataDirError::Io {
            path: "data".into(),
            source: io::Error::from(io::ErrorKind::StorageFull),
        };
        let refusal = Refusal::new("--data-dir", "no space is left", "look at the disk");
        for error in [
            RestoreError::from(full()),
            RestoreError::DiskKey(refusal.clone()),
            RestoreError::Founding(full().into()),
        ] {
            let ending = ending(error);
            assert!(matches!(ending, Ending::Fatal(_)), "{ending:?}");
        }
        let taken = DataDirError::NotEmpty("data".into());
        let absent = DataDirError::Missing("data".into());
        let dangling = DataDirError::Dangling("data".into());
        for error in [
            RestoreError::from(taken),
            RestoreError::from(absent),
            RestoreError::from(dangling),
            // As `helve serve` ends over it.
            RestoreError::from(DataDirError::ReadOnly("data".into())),
            RestoreError::Founding(DataDirError::ReadOnly("data".into()).into()),
            RestoreError::from(BackupError::Nothing("backups".into())),
            RestoreError::Keys(refusal),
        ] {
            let ending = ending(error);
            assert!(matches!(ending, Ending::Refused(_)), "{ending:?}");
        }
    }
}
