//! `helve member`: who belongs to the cluster, changed while it runs.

mod follow;
mod list;

use std::time::Duration;

use helve_command::{address, cluster::ClusterArgs, duration, ending::Outcome, output::OutputArgs};
use helve_proto::v1::{
    AddMemberRequest, PromoteMemberRequest, RemoveMemberRequest, ReplaceMemberRequest,
};
use serde::Serialize;

use self::{
    follow::{Wish, carry_out},
    list::Members,
};

/// List, add, promote, remove and replace members, while the cluster serves
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    List(ListArgs),
    Add(AddArgs),
    Promote(PromoteArgs),
    Remove(RemoveArgs),
    Replace(ReplaceArgs),
}

/// Show the members, a line each, and the change under way
///
/// As the leader knows them, if one is known.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve member list
  helve member list --output json | jq '.members[] | select(.voter).id'

Columns: ID is the node's id for life, SEAT its place in --peers; LAG is the number of entries that it lacks.

Exit status: 0 done, 3 no endpoint answers; others as `helve --help` lists them.")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Flags of the commands that change members.
#[derive(Debug, Clone, clap::Args)]
struct ChangeArgs {
    /// Time to wait for the node and for the change, such as 10m
    #[arg(long, default_value = "10m", value_parser = duration::parse, env = "HELVE_MEMBER_WAIT", value_name = "DURATION")]
    wait: Duration,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The node to add.
#[derive(Debug, Clone, clap::Args)]
struct PlaceArgs {
    /// Seat of the new node: its --id
    #[arg(long, env = "HELVE_MEMBER_SEAT", value_name = "SEAT")]
    seat: u64,

    /// Peer address of the new node, exactly as its own --peers has it for its seat
    #[arg(long, value_parser = address::parse, env = "HELVE_MEMBER_PEER", value_name = "HOST:PORT")]
    peer: String,
}

/// Add a new node: first as a learner, then, once it has caught up, as a voter
///
/// Start the new node with an empty --data-dir, its seat as --id, and a --peers that lists itself
/// and at least one member, before this command or while it waits. The new node waits for this
/// command, so that no cluster grows by mistake. The members need no restart, and no new --peers.
/// Repeating the command after an error is safe.
///
/// A node whose disk was lost does not need this: started with an empty --data-dir under its old
/// --id, it takes its seat over by itself.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  On the new machine:
    helve serve --id 4 --data-dir n4 ... --peers 1=a:7401,2=b:7401,3=c:7401,4=d:7401
  Anywhere:
    helve member add --seat 4 --peer d:7401 --endpoints a:7400
  With compose:
    docker compose -f deploy/compose.yaml --profile grow up --detach node-4
    docker compose -f deploy/compose.yaml exec node-1 helve member add --seat 4 --peer node-4:7401

Exit status: 0 done, 5 under way when --wait ended, 6 not possible now; others as `helve --help` lists them.")]
pub(crate) struct AddArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Add it as a learner only: it holds everything and does not vote, until `helve member promote`.
    /// A node that was started with --learner is added as one with or without this
    #[arg(long, env = "HELVE_MEMBER_LEARNER")]
    learner: bool,

    #[command(flatten)]
    change: ChangeArgs,
}

/// Make a learner a voter, once it has caught up
///
/// Refused while the node runs with --learner: start it again without the flag first. Repeating the
/// command after an error is safe.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve member promote 4 --endpoints a:7400

Exit status: 0 done, 1 no such member exists, 5 under way when --wait ended, 6 not possible now: a voter already, with --learner, or \
silent; others as `helve --help` lists them.")]
pub(crate) struct PromoteArgs {
    /// Id of the learner, as `helve member list` shows it; not its seat
    id: u64,

    #[command(flatten)]
    change: ChangeArgs,
}

/// Remove a member, dead or alive, the leader too
///
/// The node notices, stops serving and says so; it never returns under its id. Stop it then. To use
/// the machine again, empty its data directory and add it with `helve member add`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve member remove 4 --endpoints a:7400
  With compose:
    docker compose -f deploy/compose.yaml exec node-1 helve member remove 4
    docker compose -f deploy/compose.yaml --profile grow rm --stop --force node-4
    docker volume rm helve_node-4

Exit status: 0 done, 1 no such member exists, 5 under way when --wait ended, 6 not possible now; others as `helve --help` lists them.")]
pub(crate) struct RemoveArgs {
    /// Id of the member, as `helve member list` shows it; not its seat
    id: u64,

    /// Remove it even if too few of the remaining voters answer now: nothing is written until
    /// enough of them are back
    #[arg(long, env = "HELVE_MEMBER_EVEN_WITHOUT_QUORUM")]
    even_without_quorum: bool,

    #[command(flatten)]
    change: ChangeArgs,
}

/// Add a new node and remove a member, dead or alive, in one step
///
/// Works as `helve member add`; the seat may be the old one or a new one. In the place of a voter the
/// new node votes; in the place of a learner it is one.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve member replace 3 --seat 4 --peer d:7401 --endpoints a:7400
  With compose:
    docker compose -f deploy/compose.yaml --profile grow up --detach node-4
    docker compose -f deploy/compose.yaml exec node-1 helve member replace 3 --seat 4 --peer node-4:7401

Exit status: 0 done, 1 no such member exists, 5 under way when --wait ended, 6 not possible now; others as `helve --help` lists them.")]
pub(crate) struct ReplaceArgs {
    /// Id of the member to remove, as `helve member list` shows it; not its seat
    id: u64,

    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// A change that is done, and what came of it.
#[derive(Serialize)]
struct Changed {
    /// The new node's id; of a removal, the removed one's.
    node_id: u64,
    /// Absent if no node shows them.
    #[serde(flatten)]
    members: Option<Members>,
}

/// Runs a command.
///
/// # Errors
/// See [`super::ending::Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::List(args) => {
            let members = list::members(&args.cluster).await?;
            args.output.print(&members, list::text)
        }
        Command::Add(args) => {
            let wish = Wish::Add(AddMemberRequest {
                seat: args.place.seat,
                peer_address: args.place.peer.clone(),
                learner: args.learner,
            });
            change(&wish, &args.change).await
        }
        Command::Promote(args) => {
            let wish = Wish::Promote(PromoteMemberRequest { id: args.id });
            change(&wish, &args.change).await
        }
        Command::Remove(args) => {
            let wish = Wish::Remove(RemoveMemberRequest {
                id: args.id,
                even_without_quorum: args.even_without_quorum,
            });
            change(&wish, &args.change).await
        }
        Command::Replace(args) => {
            let wish = Wish::Replace(ReplaceMemberRequest {
                id: args.id,
                seat: args.place.seat,
                peer_address: args.place.peer.clone(),
            });
            change(&wish, &args.change).await
        }
    }
}

async fn change(wish: &Wish, args: &ChangeArgs) -> Outcome {
    let node_id = carry_out(wish, args.wait, &args.cluster).await?;
    // The change is done, whether or not its result can be shown.
    let members = list::members_after(wish, node_id, &args.cluster).await.ok();
    let changed = Changed { node_id, members };
    args.output.print(&changed, text)
}

fn text(changed: &Changed) -> String {
    match &changed.members {
        Some(members) => list::text(members),
        None => format!(
            "done, for node {}; no node shows the members now: see `helve member list`",
            changed.node_id
        ),
    }
}
