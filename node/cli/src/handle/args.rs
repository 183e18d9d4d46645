//! The flags of `helve handle`.

use std::time::Duration;

use helve_command::{cluster::ClusterArgs, duration, output::OutputArgs};
use helve_proto::v1::Lifetime;

use crate::{
    lifetime::{self, LifetimeArgs, NewLifetimeArgs, Ttl},
    value::ValueArgs,
};

/// Mint, read, take, renew and list handles
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Mint(MintArgs),
    Put(PutArgs),
    /// Print a handle's value, and count it as used
    #[command(after_long_help = "Examples:
  helve handle get cart-MZXW6YTBOI... --store cart
  helve handle get ID --store cart --owner alice --output json

Exit status: 0 live, 1 expired, taken or unknown; others as `helve --help` lists them.")]
    Get(NameArgs),
    /// Take a handle's value: it is printed once, and the handle is gone
    #[command(after_long_help = "Examples:
  helve handle take ID --store cart
  helve handle take ID --store cart --if-revision 42

Exit status: 0 taken, 1 expired, taken before, unknown or of another revision; others as `helve --help` lists them.")]
    Take(RevisionArgs),
    Renew(RenewArgs),
    /// Delete a handle
    #[command(after_long_help = "Examples:
  helve handle delete ID --store cart

Exit status: 0 deleted, 1 there was none, or of another revision; others as `helve --help` lists them.")]
    Delete(RevisionArgs),
    List(ListArgs),
    Count(CountArgs),
}

/// Flags of the commands on one handle.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Store of the handle: 1 to 64 bytes of [a-z0-9_-]
    #[arg(long, env = "HELVE_STORE", value_name = "NAME")]
    pub(super) store: String,

    /// Owner of the handle, an end user; empty for none. For any other owner the handle does not
    /// exist
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "HELVE_OWNER",
        value_name = "SUBJECT"
    )]
    pub(super) owner: String,
}

/// Mint a handle, and print its id
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve handle mint --store cart --id-prefix cart --ttl 1h --value '{\"items\":[]}'
  helve handle mint --store cart --owner alice --idle-ttl 15m --value @cart.json --output json")]
pub(crate) struct MintArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) value: ValueArgs,
    #[command(flatten)]
    pub(super) lifetime: NewLifetimeArgs,

    /// Put before the id, as PREFIX-; empty for none
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "HELVE_ID_PREFIX",
        value_name = "PREFIX"
    )]
    pub(super) id_prefix: String,
}

/// Write a handle's value: a new handle under this id, or a new value for an existing one
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve handle put ID --store cart --ttl keep --value '{\"items\":[1]}'
  helve handle put ID --store cart --if-revision 42 --value @cart.json

Exit status: 0 written, 1 expired, taken or of another revision, and nothing written; others as `helve --help` lists them.")]
pub(crate) struct PutArgs {
    /// Id of the handle
    pub(super) id: String,
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) value: ValueArgs,
    #[command(flatten)]
    pub(super) lifetime: LifetimeArgs,

    /// Revision that the handle must have; 0: it must not exist
    #[arg(long, env = "HELVE_IF_REVISION", value_name = "REVISION")]
    pub(super) if_revision: Option<u64>,
}

/// A handle.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NameArgs {
    /// Id of the handle
    pub(super) id: String,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A handle, perhaps of one revision.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RevisionArgs {
    /// Id of the handle
    pub(super) id: String,
    #[command(flatten)]
    pub(super) common: Common,

    /// Revision that the handle must have
    #[arg(long, env = "HELVE_IF_REVISION", value_name = "REVISION")]
    pub(super) if_revision: Option<u64>,
}

/// Give a handle a new lifetime, or restart its idle time
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve handle renew ID --store cart                  restart the idle time
  helve handle renew ID --store cart --ttl 1h         live for another hour

Exit status: 0 renewed, 1 expired, taken or unknown; others as `helve --help` lists them.")]
pub(crate) struct RenewArgs {
    /// Id of the handle
    pub(super) id: String,
    #[command(flatten)]
    pub(super) common: Common,

    /// New lifetime: a duration such as 1h, `never`, or `keep` to restart only the idle time
    #[arg(long, default_value = "keep", value_parser = lifetime::parse, env = "HELVE_TTL", value_name = "TTL")]
    ttl: Ttl,

    /// Time without a get or renewal after which the record expires, such as 15m
    #[arg(long, value_parser = duration::parse, env = "HELVE_IDLE_TTL", value_name = "DURATION")]
    idle_ttl: Option<Duration>,
}

impl RenewArgs {
    pub(super) fn lifetime(&self) -> Lifetime {
        lifetime::lifetime(self.ttl, self.idle_ttl)
    }
}

/// List the handles of a store, or of one owner in it, from one view
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve handle list --store cart
  helve handle list --store cart --owner alice --values --output json")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Store to list
    #[arg(long, env = "HELVE_STORE", value_name = "NAME")]
    pub(super) store: String,

    /// Owner whose handles to list
    #[arg(long, env = "HELVE_OWNER", value_name = "SUBJECT")]
    pub(super) owner: Option<String>,

    /// Show values too
    #[arg(long, env = "HELVE_VALUES")]
    pub(super) values: bool,
}

/// Count the live handles of a store, or of one owner in it
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve handle count --store cart
  helve handle count --store cart --owner alice")]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Store to count
    #[arg(long, env = "HELVE_STORE", value_name = "NAME")]
    pub(super) store: String,

    /// Owner whose handles to count
    #[arg(long, env = "HELVE_OWNER", value_name = "SUBJECT")]
    pub(super) owner: Option<String>,
}
