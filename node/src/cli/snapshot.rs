//! `helve snapshot`: make a node take one.

use helve_proto::v1::{TakeSnapshotRequest, cluster_service_client::ClusterServiceClient};
use serde::Serialize;

use super::{
    cluster::{ClusterArgs, ending, request},
    ending::{Ending, Outcome},
    output::OutputArgs,
};

/// Make nodes take a snapshot now, and wait for it
///
/// Every endpoint takes its own. Nodes do so by themselves as their logs grow; this is for operators who want the log short, before a
/// backup or a new node, say.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve snapshot --endpoints 127.0.0.1:7400,127.0.0.1:7410 --timeout 60s

Exit status: 0 done, 3 a node does not answer.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Snapshot<'a> {
    endpoint: &'a str,
    index: u64,
}

#[derive(Serialize)]
struct Snapshots<'a> {
    snapshots: Vec<Snapshot<'a>>,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let timeout = args.cluster.timeout;
    let mut snapshots = Vec::new();
    for endpoint in &args.cluster.endpoints {
        let channel = args.cluster.channel(endpoint).map_err(Ending::Refused)?;
        let mut client = ClusterServiceClient::new(channel);
        let answer = client
            .take_snapshot(request(TakeSnapshotRequest {}, timeout))
            .await;
        let index = answer.map_err(|status| ending(&status))?.into_inner().index;
        snapshots.push(Snapshot { endpoint, index });
    }
    args.output.print(&Snapshots { snapshots }, |all| {
        let line = |s: &Snapshot<'_>| format!("{}: snapshot up to entry {}", s.endpoint, s.index);
        all.snapshots
            .iter()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    })
}
