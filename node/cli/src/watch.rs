//! `helve watch`: changes of records as they happen.

use std::time::Duration;

use futures::StreamExt as _;
use helve_client::{Change, ChangeKind, Error, ErrorKind, Owner, Watch};
use helve_command::{
    cluster::{ClusterArgs, client, failed},
    ending::{Ending, Outcome},
    output::{self, OutputArgs, harmless},
    signals::Signals,
};
use serde::Serialize;
use tokio::time::sleep;

use super::record::Record;

/// Between two tries, while no node tells changes.
const PAUSE: Duration = Duration::from_millis(500);

/// Print changes of records as they happen, until it is stopped
///
/// Each change is a line, in the order of the log. It names no value: `helve handle get` or `helve state retrieve` shows the newest one. A
/// renewal is no change. The command goes on at another node when its node fails. While no node answers within --timeout, it says so
/// and waits.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve watch store cart
  helve watch handle cart-7KQ... --store cart --owner alice
  helve watch keys app/ --output json
  helve watch owner alice --after 4711

Exit status: 0 stopped by SIGINT or SIGTERM, or --changes were printed; 6 no node has all changes after --after any more: list, and watch after the
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
    let mut stop = Signals::to_stop().map_err(|error| Ending::Fatal(error.into()))?;
    let client = client(&common.cluster)?;
    let mut watched = tokio::select! {
        watched = client.watch(watch) => watched.map_err(failed)?,
        _ = stop.recv() => return Ok(()),
    };
    let mut left = common.changes;
    let mut outage = Outage::default();
    loop {
        let changed = tokio::select! {
            changed = watched.next() => changed,
            _ = stop.recv() => return Ok(()),
        };
        let changed = match changed {
            None => return Ok(()),
            Some(Ok(changed)) => changed,
            Some(Err(error)) if may_pass(&error) => {
                outage.say(&error);
                tokio::select! {
                    () = sleep(PAUSE) => continue,
                    _ = stop.recv() => return Ok(()),
                }
            }
            Some(Err(error)) => return Err(failed(error)),
        };
        outage = Outage::default();
        for change in changed.changes {
            let printed = common.output.announce(&line(change), text);
            printed.map_err(|error| Ending::Fatal(error.into()))?;
            left = left.map(|left| left - 1);
            if left == Some(0) {
                return Ok(());
            }
        }
    }
}

/// Whether the watch goes on from where it is: no node had time for it, or none with a leader answered.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Overloaded)
}

/// A time without any part of a watch. It is reported once, however long it lasts.
#[derive(Debug, Default)]
struct Outage {
    is_said: bool,
}

impl Outage {
    fn say(&mut self, error: &Error) {
        if !self.is_said {
            let why = error.to_string();
            output::say(format_args!(
                "helve: no node tells changes now, and the watch goes on once one does: {}",
                harmless(&why)
            ));
            self.is_said = true;
        }
    }
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

/// A change for people. Callers chose the names in it.
fn text(line: &Line) -> String {
    let store = harmless(line.store.as_deref().unwrap_or(""));
    let owner = match line.owner.as_str() {
        "" => String::new(),
        owner => format!(" of {}", harmless(owner)),
    };
    format!(
        "{:>8}  {:<8} {:<6} {store:<12} {}{owner}",
        line.revision,
        line.change,
        line.kind,
        harmless(&line.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_outlives_an_outage_and_no_refusal() {
        for (kind, passes) in [
            (ErrorKind::Unavailable, true),
            (ErrorKind::Overloaded, true),
            (ErrorKind::Lapsed, false),
            (ErrorKind::Denied, false),
            (ErrorKind::Invalid, false),
        ] {
            let label = format!("{kind:?}");
            assert_eq!(may_pass(&Error::new(kind, "why")), passes, "{label}");
        }
    }

    #[test]
    fn names_of_callers_forge_no_line_and_steer_no_terminal() {
        let page = text(&Line {
            change: "put",
            kind: "handle",
            store: Some("cart\r".to_owned()),
            name: "a\n      12  deleted  handle cart b".to_owned(),
            owner: "alice\u{1b}]0;owned\u{7}\u{202e}".to_owned(),
            revision: 11,
            ordinal: 0,
            record: None,
        });
        let steers = |sign: char| sign.is_control() || sign == '\u{202e}';
        assert!(!page.contains(steers), "{page:?}");
        assert!(page.contains(r"a\n      12  deleted"), "{page:?}");
        assert!(page.contains(r"of alice\u{1b}]0;owned"), "{page:?}");
    }
}
