//! The flags of `helve upgrade`.

use helve_command::{cluster::ClusterArgs, output::OutputArgs};

/// Hold the feature level during an upgrade, and let it rise
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Status(StatusArgs),
    Hold(HoldArgs),
    Finish(FinishArgs),
}

/// Show the feature level, what each member supports, whether it is held, and what finishing forbids
///
/// While versions differ, the cluster stays at the level of the oldest. Once every member supports
/// a higher one, the level rises, unless a member holds it. It never falls.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve upgrade status
  helve upgrade status --output json | jq .finishing

Columns: SUPPORTS is the newest feature level that the node's version supports, HELD the level at which it holds the cluster.

Exit status: 0 shown, 3 no node answers; others as `helve --help` lists them.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Keep the feature level where it is until `helve upgrade finish`: until then the version before can run again
///
/// Every member whose version knows holds stores it, and it stays over restarts, changes of the
/// leader and a return to an older version. One of them is enough. A hold is for one level: it is
/// over once the level was raised. Run it before the upgrade, or if the version before does not know
/// holds, before the last node is upgraded. To repeat it does no harm.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve upgrade hold
  helve upgrade hold --endpoints 127.0.0.1:7400 --output json

Exit status: 0 the level is held by every member that answers and knows holds, 1 only some of them hold it, 2 the call is not this
token's to make, 5 it was sent, and not seen to be done, 6 no member can hold it now; others as `helve --help` lists them.")]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// End the hold, and wait until the feature level is the newest that the members support
///
/// From then on no older version starts on the data: `helve upgrade status` says what it forbids. It
/// is refused while a member does not support the new level, or does not answer. To repeat it does no
/// harm.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve upgrade finish
  helve upgrade finish --timeout 30s --output json

Exit status: 0 the level is the newest that the members support, and nothing holds it, 5 the hold was ended, and the level not seen to
rise, 6 a member does not support the new level or does not answer, and nothing was done; others as `helve --help` lists them.")]
pub(crate) struct FinishArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}
