//! `helve snapshot`: make a node take one.

use futures::future::join_all;
use helve_command::{
    cluster::{ClusterArgs, ending, reason, request, transport},
    ending::{Cause, Caused, Ending, Outcome, said},
    output::{OutputArgs, harmless},
};
use helve_proto::v1::{TakeSnapshotRequest, cluster_service_client::ClusterServiceClient};
use serde::Serialize;

use super::diagnosis;

/// Make nodes take a snapshot now, and wait for it
///
/// Every endpoint takes its own. Nodes take snapshots by themselves as their logs grow. Use this to
/// shorten the log before adding a node.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve snapshot --endpoints 127.0.0.1:7400,127.0.0.1:7410 --timeout 60s

Exit status: 0 every endpoint took one, 1 some of them took none, and the output says which and why; others as `helve --help` lists
them.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What one endpoint did.
#[derive(Serialize)]
struct Snapshot<'a> {
    endpoint: &'a str,
    /// The last entry in the snapshot; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    /// Why there is none, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    /// The same in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
}

#[derive(Serialize)]
struct Snapshots<'a> {
    snapshots: Vec<Snapshot<'a>>,
}

/// Runs the command. Every endpoint is asked, whatever the others say.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let cluster = &args.cluster;
    let taken = cluster.endpoints.iter().map(|endpoint| async move {
        let taken = take(cluster, endpoint).await;
        (endpoint, taken)
    });
    let taken = join_all(taken).await;
    let failed = taken.iter().filter(|(_, taken)| taken.is_err()).count();
    // Where none was taken, the error says why.
    if failed < taken.len() {
        let snapshots = taken.iter().map(|(endpoint, taken)| shown(endpoint, taken));
        let snapshots = Snapshots {
            snapshots: snapshots.collect(),
        };
        args.output.print(&snapshots, text)?;
    }
    let all = taken.len();
    let first = taken.into_iter().find_map(|(_, taken)| taken.err());
    match first {
        None => Ok(()),
        Some(ending) if failed == all => Err(ending),
        Some(_) => {
            let message = format!("{failed} of {all} endpoints took no snapshot");
            Err(Ending::Absent(Caused::new(Cause::Partial, message).into()))
        }
    }
}

async fn take(cluster: &ClusterArgs, endpoint: &str) -> Result<u64, Ending> {
    let channel = cluster.channel(endpoint).map_err(Ending::Refused)?;
    let mut client = ClusterServiceClient::new(channel);
    let answer = client
        .take_snapshot(request(TakeSnapshotRequest {}, cluster.timeout))
        .await;
    let status = match answer {
        Ok(reply) => return Ok(reply.into_inner().index),
        Err(status) => status,
    };
    if reason(&status).is_some() {
        return Err(ending(&status));
    }
    let finding = diagnosis::behind(cluster, endpoint, &transport(&status)).await;
    Err(finding.caused(0).into())
}

fn shown<'a>(endpoint: &'a str, taken: &Result<u64, Ending>) -> Snapshot<'a> {
    Snapshot {
        endpoint,
        index: taken.as_ref().ok().copied(),
        cause: taken.as_ref().err().map(Ending::cause),
        error: match taken {
            Ok(_) => String::new(),
            Err(ending) => said(&**ending.error()),
        },
    }
}

fn text(all: &Snapshots<'_>) -> String {
    let line = |snapshot: &Snapshot<'_>| match snapshot.index {
        Some(index) => format!("{}: snapshot up to entry {index}", snapshot.endpoint),
        None => {
            let error = harmless(&snapshot.error);
            format!("{}: none: {error}", snapshot.endpoint)
        }
    };
    all.snapshots
        .iter()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}
