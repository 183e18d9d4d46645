//! `helve key`: the key rings of the cluster, under which MCP servers seal what clients carry.

use std::{
    io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use helve_command::{
    cluster::{ClusterArgs, failed, writing_client},
    ending::{Ending, Outcome},
    output::{OutputArgs, table, time},
};
use helve_node::stamp;
use helve_request_state::state_codec::{KeyId, KeyRing, OperatorKey, Patience, RingKey};
use helve_seal::{Secret, SecretError};
use serde::Serialize;
use zeroize::Zeroizing;

use super::whole_file::{self, Readers, Replace};

/// Make an operator's key; list, add, activate and remove the keys under which MCP servers seal requestState
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    New(NewArgs),
    /// List the keys of a ring
    #[command(after_long_help = "Examples:
  helve key list --key-file operator-key
  helve key list --ring shop --key-file operator-key --output json

Exit status: 0 done, 2 bad usage, a refused key file or another operator's ring; others as `helve --help` lists them.")]
    List(Args),
    Add(AddArgs),
    Activate(ActivateArgs),
    Remove(RemoveArgs),
}

/// Make a key for --key-file: a file of 32 random bytes that only its owner may read
///
/// `helve mcp` seals confirmations under it, and `helve key` seals rings under it. Replicas share one file.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve key new state.key
  helve mcp --enable-writes --key-file state.key

Exit status: 0 made, 2 the file exists already, or cannot be written.")]
pub(crate) struct NewArgs {
    /// File to write; an existing file is never overwritten
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

/// A key that was made.
#[derive(Serialize)]
struct Made {
    file: String,
}

/// Flags of all commands on a ring.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Name of the ring: servers that share states share a ring
    #[arg(
        long,
        default_value = "default",
        env = "HELVE_KEY_RING",
        value_name = "NAME"
    )]
    ring: String,

    /// File with the operator's key, which seals the ring in the cluster: one line of base64 or
    /// hexadecimal for at least 32 random bytes, or 32 such bytes as they are; `helve key new FILE`
    /// makes one. Other users of the machine must not be able to read it
    #[arg(long, env = "HELVE_KEY_FILE", value_name = "FILE")]
    key_file: PathBuf,

    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Make a key and add it
///
/// The first key of a ring seals at once. Every other key is verified first: all servers pick it up
/// within 30 s, and then it may be activated. No server needs a restart, and no state is refused on
/// the way.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve key add --ring shop --key-file operator-key
  helve key add --key-file operator-key --output json

Exit status: 0 done, 2 refused; others as `helve --help` lists them.")]
pub(crate) struct AddArgs {
    #[command(flatten)]
    args: Args,
}

/// Seal under this key; the key before it retires, and still opens what it sealed
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve key activate 207437f229210c67 --ring shop --key-file operator-key
  helve key activate 207437f229210c67 --key-file operator-key --force

Exit status: 0 done, 2 refused, such as too early; others as `helve --help` lists them.")]
pub(crate) struct ActivateArgs {
    /// Id of the key
    #[arg(value_name = "ID")]
    id: String,

    /// Do not wait until every server has picked the key up
    #[arg(long, env = "HELVE_FORCE")]
    force: bool,

    #[command(flatten)]
    args: Args,
}

/// Forget a key that does not seal
///
/// A retiring key is kept for a day and 30 s: as long as a state that it sealed may be redeemed. If
/// the key has leaked, activate another one and remove it, both with --force. Every server then
/// refuses what it sealed within seconds, and one that cannot reach the cluster within five
/// minutes.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve key remove 207437f229210c67 --ring shop --key-file operator-key
  helve key remove 207437f229210c67 --key-file operator-key --force

Exit status: 0 done, 2 refused, such as too early; others as `helve --help` lists them.")]
pub(crate) struct RemoveArgs {
    /// Id of the key
    #[arg(value_name = "ID")]
    id: String,

    /// Do not wait until what it sealed has expired: states that are still valid are refused
    #[arg(long, env = "HELVE_FORCE")]
    force: bool,

    #[command(flatten)]
    args: Args,
}

#[derive(Serialize)]
struct Key {
    id: String,
    /// `verifying`, `active` or `retiring`.
    phase: &'static str,
    /// Since when it is in this phase, on the cluster's clock.
    since_ms: u64,
}

#[derive(Serialize)]
struct Ring<'a> {
    ring: &'a str,
    keys: Vec<Key>,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::New(args) => new(args),
        Command::List(args) => {
            let keys = ring(args).await?.list().await.map_err(failed)?;
            print(args, &keys)
        }
        Command::Add(AddArgs { args }) => {
            let key = ring(args).await?.add().await.map_err(failed)?;
            print(args, &[key])
        }
        Command::Activate(ActivateArgs { id, force, args }) => {
            let ring = ring(args).await?;
            let patience = if *force {
                Patience::Force
            } else {
                Patience::Wait
            };
            let keys = ring.activate(key_id(id)?, patience).await;
            print(args, &keys.map_err(failed)?)
        }
        Command::Remove(RemoveArgs { id, force, args }) => {
            let ring = ring(args).await?;
            let patience = if *force {
                Patience::Force
            } else {
                Patience::Wait
            };
            let keys = ring.remove(key_id(id)?, patience).await;
            print(args, &keys.map_err(failed)?)
        }
    }
}

fn new(args: &NewArgs) -> Outcome {
    let bytes = Zeroizing::new(stamp::random::<32>().map_err(|error| Ending::Fatal(error.into()))?);
    let file = args.file.display().to_string();
    whole_file::write(&args.file, &*bytes, Readers::Owner, Replace::Never)
        .with_context(|| format!("{file} cannot be written"))
        .map_err(Ending::Refused)?;
    args.output.print(&Made { file }, |made| {
        format!("{}: made; pass it as --key-file", made.file)
    })
}

fn key_id(text: &str) -> Result<KeyId, Ending> {
    KeyId::parse(text).ok_or_else(|| {
        let message =
            anyhow!("`{text}` is not a key id: give 16 hexadecimal digits, see `helve key list`");
        Ending::Refused(message)
    })
}

/// The ring. A list of its keys is looked at to change it, so it is of one cluster, too.
async fn ring(args: &Args) -> Result<KeyRing, Ending> {
    let operator = operator_key(&args.key_file).map_err(Ending::Refused)?;
    let client = writing_client(&args.cluster).await?;
    KeyRing::new(&client, &args.ring, &operator)
        .map_err(|error| Ending::Refused(anyhow!("--ring: {error}")))
}

/// The key of `--key-file`.
///
/// # Errors
/// If the file cannot be read, or holds no key.
pub(crate) fn operator_key(file: &Path) -> anyhow::Result<OperatorKey> {
    let secret = Secret::read(file).map_err(|error| {
        // Another key would not open what that of a file sealed that is there, and cannot be read.
        let next = match &error {
            SecretError::Unreadable(error) if error.kind() != io::ErrorKind::NotFound => {
                "name a file that this user may read"
            }
            _ => "`helve key new FILE` makes one",
        };
        anyhow!(
            "--key-file: the key file {}: {error}; {next}",
            file.display()
        )
    })?;
    Ok(OperatorKey::new(secret.bytes())?)
}

fn print(args: &Args, keys: &[RingKey]) -> Outcome {
    let key = |key: &RingKey| Key {
        id: key.id.to_string(),
        phase: key.phase.name(),
        since_ms: key.since_ms,
    };
    let ring = Ring {
        ring: &args.ring,
        keys: keys.iter().map(key).collect(),
    };
    args.output.print(&ring, |ring| {
        let mut table = table(&["KEY", "PHASE", "SINCE"]);
        for key in &ring.keys {
            table.add_row([key.id.as_str(), key.phase, &time(key.since_ms)]);
        }
        table.trim_fmt()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_to_be_made_only_where_none_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let said = |file: &Path| operator_key(file).err().unwrap().to_string();
        let none = said(&directory.path().join("none"));
        assert!(none.contains("`helve key new FILE` makes one"), "{none}");
        let endless = said(Path::new("/dev/zero"));
        assert!(endless.contains("it is a device"), "{endless}");
        let unreadable = said(directory.path());
        assert!(!unreadable.contains("helve key new"), "{unreadable}");
        assert!(
            unreadable.contains("--key-file") && unreadable.contains("may read"),
            "{unreadable}"
        );
    }
}
