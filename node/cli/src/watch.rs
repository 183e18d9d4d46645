//! `helve watch`: changes of records as they happen.

use futures::StreamExt as _;
use helve_client::{Change, ChangeKind, Owner, Watch};
use helve_command::{
    cluster::{ClusterArgs, client, failed},
    ending::{Ending, Outcome},
    output::OutputArgs,
};
use serde::Serialize;

use super::record::Record;

/// Print changes of records as they happen, until it is stopped
///
/// Each change is a line, in the order of the log. It names no value: `helve handle get` or `helve state retrieve` shows the newest one. A
/// renewal is no change. The command goes on at another node when its node fails.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve watch store cart
  helve watch handle cart-7KQ... --store cart --owner alice
  helve watch keys app/ --output json
  helve watch owner alice --after 4711

Exit status: 0 stopped, or --changes were printed; 6 no node has all changes after --after any more: list, and watch after the
list's revision; others as `helve --help` lists them.")]
pub(crate) struct Args {
    #[command(subcommand)]
    target: Target,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Target {
    /// Watch the handles of a store
    Store(StoreArgs),
    /// Watch one handle
    Handle(HandleArgs),
    /// Watch the keys that begin with a prefix
    Keys(KeysArgs),
    /// Watch all handles and keys of an owner
    Owner(OwnerArgs),
}

#[derive(Debug, Clone, clap::Args)]
struct Common {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,

    /// Revision after which to begin: that of a list, or of the last change seen. Without it only
    /// what happens from now on is printed
    #[arg(long, env = "HELVE_AFTER", value_name = "REVISION")]
    after: Option<u64>,

    /// Number of changes after which to stop
    #[arg(long, env = "HELVE_CHANGES", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    changes: Option<u64>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve watch store cart
  helve watch store cart --owner alice --output json")]
struct StoreArgs {
    /// The store
    store: String,

    /// Owner of the handles, an end user; without it the handles of all owners
    #[arg(long, env = "HELVE_OWNER", value_name = "SUBJECT")]
    owner: Option<String>,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve watch handle cart-7KQ... --store cart --owner alice")]
struct HandleArgs {
    /// Id of the handle
    id: String,

    /// The store
    #[arg(long, env = "HELVE_STORE")]
    store: String,

    /// Owner of the handle, an end user; empty for none
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "HELVE_OWNER",
        value_name = "SUBJECT"
    )]
    owner: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve watch keys app/ --output json
  helve watch keys --owner alice --changes 10")]
struct KeysArgs {
    /// How the keys begin; without it all of the owner's
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,

    /// Owner of the keys, an end user; empty for none
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "HELVE_OWNER",
        value_name = "SUBJECT"
    )]
    owner: String,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve watch owner alice --after 4711")]
struct OwnerArgs {
    /// The owner, an end user
    owner: String,

    #[command(flatten)]
    common: Common,
}

/// A change for programs.
#[derive(Debug, Serialize)]
struct Line {
    /// `put`, `taken`, `deleted` or `expired`.
    change: &'static str,
    /// `handle` or `key`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    owner: String,
    /// With the next one, the place of the change in the log.
    revision: u64,
    ordinal: u32,
    /// What is known of a record that was put.
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<Record>,
}

impl Target {
    fn parts(&self) -> (Watch, &Common) {
        match self {
            Self::Store(args) => {
                let watch = match &args.owner {
                    Some(name) => Watch::store_of(&args.store, owner(name)),
                    None => Watch::store(&args.store),
                };
                (watch, &args.common)
            }
            Self::Handle(args) => {
                let watch = Watch::handle(&args.store, owner(&args.owner), &args.id);
                (watch, &args.common)
            }
            Self::Keys(args) => {
                let watch = Watch::keys(owner(&args.owner), &args.prefix);
                (watch, &args.common)
            }
            Self::Owner(args) => (Watch::owner(owner(&args.owner)), &args.common),
        }
    }
}

/// The owner that an argument names; empty: none.
fn owner(name: &str) -> Owner {
    match name {
        "" => Owner::shared(),
        name => Owner::from(name),
    }
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let (watch, common) = args.target.parts();
    let watch = match common.after {
        Some(revision) => watch.after(revision),
        None => watch,
    };
    let client = client(&common.cluster)?;
    let mut watched = client.watch(watch).await.map_err(failed)?;
    let mut left = common.changes;
    while let Some(changed) = watched.next().await {
        for change in changed.map_err(failed)?.changes {
            let printed = common.output.announce(&line(change), text);
            printed.map_err(|error| Ending::Fatal(error.into()))?;
            left = left.map(|left| left - 1);
            if left == Some(0) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn line(change: Change) -> Line {
    let info = change.info;
    Line {
        change: match change.kind {
            ChangeKind::Put => "put",
            ChangeKind::Taken => "taken",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Expired => "expired",
            ChangeKind::Unspecified => "unknown",
        },
        kind: if change.store.is_some() {
            "handle"
        } else {
            "key"
        },
        store: change.store,
        name: info.name.clone(),
        owner: info.owner.clone(),
        revision: info.revision,
        ordinal: change.ordinal,
        record: (change.kind == ChangeKind::Put).then(|| Record::new(info, None, None)),
    }
}

fn text(line: &Line) -> String {
    let store = line.store.as_deref().unwrap_or("");
    let owner = match line.owner.as_str() {
        "" => String::new(),
        owner => format!(" of {owner}"),
    };
    format!(
        "{:>8}  {:<8} {:<6} {store:<12} {}{owner}",
        line.revision, line.change, line.kind, line.name
    )
}
