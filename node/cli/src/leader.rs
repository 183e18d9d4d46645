//! `helve leader`: who leads, by an operator's wish.

use helve_command::{
    cluster::{ClusterArgs, ending_of_change, request},
    ending::{Ending, Outcome},
    output::OutputArgs,
};
use helve_proto::v1::{TransferLeaderRequest, cluster_service_client::ClusterServiceClient};
use serde::Serialize;

use super::status;

/// Move leadership
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Transfer(TransferArgs),
}

/// Hand leadership to a caught-up voter, and wait until it leads
///
/// Clients retry calls under way; nothing is lost. `helve serve` does the same by itself when it is
/// stopped with SIGTERM.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve leader transfer --endpoints 127.0.0.1:7400
  helve leader transfer --to 3 --output json

Exit status: 0 done, 2 --to names no voter or the leader, or the endpoints are of several clusters, 3 no leader is known, 6 not possible now, such as without a caught-up voter; others as `helve --help` lists them.")]
pub(crate) struct TransferArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,

    /// Id of the voter that is to lead (see `helve status`); by default the most caught-up one
    #[arg(long, env = "HELVE_LEADER_TO", value_name = "ID")]
    to: Option<u64>,
}

#[derive(Serialize)]
struct Transferred {
    leader_id: u64,
    term: u64,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Transfer(args) => transfer(args).await,
    }
}

async fn transfer(args: &TransferArgs) -> Outcome {
    let timeout = args.cluster.timeout;
    let leader = status::leader_address(&args.cluster).await?;
    let mut client =
        ClusterServiceClient::new(args.cluster.channel(&leader).map_err(Ending::Refused)?);
    let message = TransferLeaderRequest {
        to: args.to.unwrap_or_default(),
    };
    let answer = client.transfer_leader(request(message, timeout)).await;
    let reply = answer
        .map_err(|status| ending_of_change(&status))?
        .into_inner();
    let done = Transferred {
        leader_id: reply.leader_id,
        term: reply.term,
    };
    args.output.print(&done, |done| {
        format!("node {} leads in term {}", done.leader_id, done.term)
    })
}
