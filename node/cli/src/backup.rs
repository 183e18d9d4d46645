//! `helve backup`: a copy of all rows, in a directory or a bucket that keeps several.

mod bucket;
mod delete;
mod failed;
mod follow;
mod list;
mod shown;
mod stop;
mod take;
mod verify;

use std::{path::PathBuf, time::Duration};

use anyhow::anyhow;
use helve_command::{
    cluster::{ClusterArgs, check_one_cluster},
    duration,
    ending::{Ending, Outcome},
    output::{OutputArgs, bytes, count},
};
use helve_node::backup::Received;
use serde::Serialize;

pub(super) use self::{bucket::BucketArgs, failed::unread};
use self::{follow::Follow, shown::Shown, stop::Stop, take::Taken};

/// Back up all rows of the cluster to a directory or a bucket, while it serves
///
/// One node sends its rows as of one entry of the log, which includes all that was acknowledged
/// before the command. Files that earlier backups to the same place brought are not sent again. An
/// interrupted backup leaves no backup: run the same command again, and files that arrived whole
/// are not sent again. `helve restore` makes a new cluster of a backup.
///
/// With --follow the command makes a backup if there is none of this cluster, and then archives what
/// is committed behind it, until SIGINT or SIGTERM: `helve restore` can go to any revision or time
/// up to the end of the archive. It goes on at another endpoint when its node fails, and where the
/// archive ends when it is started again.
#[derive(Debug, Clone, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "Examples:
  helve backup /backup/helve --endpoints node1:7400,node2:7400,node3:7400
  helve backup s3://backups/helve --endpoints node1:7400,node2:7400,node3:7400
  helve backup /backup/helve --follow --endpoints node1:7400,node2:7400,node3:7400
  helve backup list /backup/helve
  helve backup verify /backup/helve
  helve backup delete /backup/helve 8c2f11d0-120934

Credentials and region of a bucket come from the environment, as the tools of AWS take them: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL for other stores than AWS's own.

Values stay sealed in a backup: keep the files of the data keys elsewhere. Tokens are in it as hashes.

Exit status: 0 done, 3 no node answers, or the connection was cut, 4 the directory or the store cannot be written, 6 the node makes
another backup; others as `helve --help` lists them. A signal that stops it in a bucket gives 129, 130 or 143."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Directory for backups, which is created in an existing one, or `s3://BUCKET/PREFIX`
    #[arg(required = true, value_name = "TO")]
    to: Option<PathBuf>,

    /// Stay, and archive what is committed behind the newest backup, until it is stopped
    #[arg(long, env = "HELVE_BACKUP_FOLLOW")]
    follow: bool,

    /// With --follow: time after which archived entries are on disk at the latest, at most a day
    #[arg(long, default_value = "60s", value_parser = duration::parse_wait, env = "HELVE_SEGMENT_EVERY", value_name = "DURATION")]
    segment_every: Duration,

    #[command(flatten)]
    bucket: BucketArgs,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Command {
    List(list::Args),
    Verify(verify::Args),
    Delete(delete::Args),
}

/// What is said of a backup that a signal has stopped. Its manifest may have been on its way.
const NOT_MADE: &str = "no backup is known to be made: run the same command again: files that arrived whole are not sent again";

#[derive(Debug, Serialize)]
struct Report {
    /// Where it is: a path, or a URL.
    directory: PathBuf,
    #[serde(flatten)]
    backup: Shown,
    /// The endpoint of the node that made it.
    endpoint: String,
    /// Bytes that it sent, and bytes that earlier backups had brought.
    sent_bytes: u64,
    /// See `sent_bytes`.
    kept_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn run(args: &Args) -> Outcome {
    match &args.command {
        Some(Command::List(args)) => return list::run(args).await,
        Some(Command::Verify(args)) => return verify::run(args).await,
        Some(Command::Delete(args)) => return delete::run(args).await,
        None => {}
    }
    let to = args.to.as_deref();
    let to = to.ok_or_else(|| Ending::Refused(anyhow!("name a directory for the backup")))?;
    check_one_cluster(&args.cluster).await?;
    if args.follow {
        let follow = Follow {
            cluster: &args.cluster,
            to,
            http: args.bucket.http(),
            output: &args.output,
            every: args.segment_every,
        };
        return follow.run().await;
    }
    let mut stop = Stop::if_marked(to)?;
    let taken = take::take(&args.cluster, to, args.bucket.http(), &mut stop).await?;
    let Some(Taken {
        received,
        endpoint,
        place,
    }) = taken
    else {
        return Err(stop.ending(&NOT_MADE).await);
    };
    let Received {
        backup,
        sent_bytes,
        kept_bytes,
    } = received;
    let report = Report {
        directory: place,
        backup: Shown::of(&backup),
        endpoint,
        sent_bytes,
        kept_bytes,
    };
    args.output.print(&report, text)
}

fn text(report: &Report) -> String {
    let Shown {
        id,
        time,
        cluster_id,
        revision,
        rows,
        digest,
        ..
    } = &report.backup;
    let mut page = format!(
        "backup {id} in {}: cluster {cluster_id} up to entry {revision}, {time}\n{} rows, digest {digest}\n{} sent by {}, {} kept from earlier backups",
        report.directory.display(),
        count(*rows),
        bytes(report.sent_bytes),
        report.endpoint,
        bytes(report.kept_bytes),
    );
    if !report.backup.data_key_ids.is_empty() {
        let keys = report.backup.data_key_ids.join(", ");
        page.push_str(&format!("\nneeds data key {keys}: keep it elsewhere"));
    }
    page
}
