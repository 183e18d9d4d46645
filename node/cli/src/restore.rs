//! `helve restore`: a new cluster out of a backup.

use std::path::PathBuf;

use helve_command::{
    ending::{Ending, Outcome},
    output::{OutputArgs, count, time},
};
use helve_node::{
    node::restore::{Report, Request, RestoreError, restore},
    vault::Migration,
};

use crate::{data_key::DataKeyFileArgs, progress::Progress};

/// Make a new cluster of a backup
///
/// Writes the data directory of the new cluster's first node, with a new cluster id. Tokens,
/// tenants, quotas and records are as they were at the backup. Time that has passed since counts:
/// records whose lifetimes have ended meanwhile expire when the node starts. The command checks
/// every file, and the digest of the rows.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve restore /backup/helve --data-dir /var/lib/helve
  helve restore /backup/helve --backup 8c2f11d0-120934 --data-dir /var/lib/helve --data-keys /etc/helve/keys
  helve serve --id 1 --data-dir /var/lib/helve --peers 1=node1:7401,2=node2:7401,3=node3:7401
  helve member add --seat 2 --peer node2:7401

Exit status: 0 done, 2 refused: the backup is damaged, too new, or needs a data key that is not given, or the data directory is not
empty, 4 the data directory cannot be written.")]
pub(crate) struct Args {
    /// Directory of backups
    #[arg(value_name = "FROM")]
    from: PathBuf,

    /// Id of the backup; by default the newest one
    #[arg(long, env = "HELVE_BACKUP", value_name = "ID")]
    backup: Option<String>,

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

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn run(args: &Args) -> Outcome {
    let keys = args.data_keys.files(Migration::Refused).read();
    let keys = keys.map_err(|refusal| Ending::Refused(refusal.into()))?;
    let request = Request {
        from: &args.from,
        backup: args.backup.as_deref(),
        data_dir: &args.data_dir,
        seat: args.id,
        keys: &keys,
    };
    let mut progress = Progress::new("checked and copied");
    let mut read = 0;
    let report = restore(&request, |bytes| {
        read += bytes;
        progress.show(read);
    });
    let report = report.await;
    drop(progress);
    let report = report.map_err(|error| match error {
        RestoreError::Storage(_) | RestoreError::Entropy(_) => Ending::Fatal(error.into()),
        _ => Ending::Refused(error.into()),
    })?;
    args.output.print(&report, text)
}

fn text(report: &Report) -> String {
    let Report {
        backup,
        former_cluster_id,
        revision,
        clock_ms,
        rows,
        digest,
        cluster_id,
        data_dir,
        node_id,
        seat,
    } = report;
    format!(
        "backup {backup} of cluster {former_cluster_id}, up to entry {revision}, {}\n\
         {} rows, digest {digest}: as they were backed up\n\
         new cluster {cluster_id}, node {node_id}, seat {seat}, in {}\n\
         next: start this node (`helve serve --id {seat} ...`), then the others with empty directories, and add each: `helve member add \
         --seat SEAT --peer HOST:PORT`",
        time(*clock_ms),
        count(*rows),
        data_dir.display(),
    )
}
