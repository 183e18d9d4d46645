//! The flags of `helve data-key`, and of every node that seals.

use std::path::PathBuf;

use helve_command::{cluster::ClusterArgs, output::OutputArgs};
use helve_node::vault::{KeyFiles, Migration};

/// Manage the keys under which values are sealed at rest
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    New(NewArgs),
    Status(StatusArgs),
    Rotate(RotateArgs),
    Unseal(UnsealArgs),
}

/// Make a key: a file of 32 random bytes that only its owner may read
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve data-key new keys/2026-11.key

Copy it to every node over a channel that you trust. Without it, what was sealed under it cannot be read, backups included.

Exit status: 0 made, 2 the file exists already, or cannot be written.")]
pub(crate) struct NewArgs {
    /// File to write; an existing file is never overwritten
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Show under which key values are sealed, and how many under which
///
/// Counts the rows of the first node that answers. Values that are kept for retries are removed
/// with their replay sessions.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve data-key status --endpoints 127.0.0.1:7400
  helve data-key status --output json

Exit status: 0 shown, 3 no node answers; others as `helve --help` lists them.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Seal under another key, and wait until every value is sealed under it
///
/// First give every node the new key's file: in its --data-keys directory, or as its last
/// --data-key-file. Nodes read their files again by themselves. Reads and writes continue. If this
/// command is interrupted, the rotation continues; run the command again to watch it.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve data-key rotate --endpoints 127.0.0.1:7400
  helve data-key rotate --to 0f6a3c5a9d2e4b17

Remove the old file once `helve data-key status` counts nothing under its key, and no backup needs it.

Exit status: 0 every value is sealed under the key, 1 no newer key exists, 2 the nodes' newest keys differ, or the newest one has
sealed before or may have: pass --to, 5 accepted, and not seen to end, 6 not possible now; others as `helve --help` lists them.")]
pub(crate) struct RotateArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Id of the key; by default the newest one, if that is the same on every node that answers and never sealed before
    #[arg(long, env = "HELVE_DATA_KEY_TO", value_name = "KEY")]
    pub(super) to: Option<String>,
}

/// Store every value in plaintext again, and wait until that is done
///
/// For a cluster that is to run without keys. Start the nodes without key files once this is done.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve data-key unseal --endpoints 127.0.0.1:7400

Exit status: 0 no value is sealed any more, 5 accepted, and not seen to end, 6 not possible
now; others as `helve --help` lists them.")]
pub(crate) struct UnsealArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Files with a node's keys. Without any, values are not sealed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataKeyFileArgs {
    /// File with the key that seals every value at rest, the same on every node; may be repeated:
    /// the last one is the newest, older ones open what they sealed
    #[arg(
        long,
        help_heading = "Sealing at rest",
        value_delimiter = ',',
        env = "HELVE_DATA_KEY_FILE",
        value_name = "FILE"
    )]
    data_key_file: Vec<PathBuf>,

    /// Directory whose files are such keys: the last one by name is the newest. Numbers in names need leading zeros, since 9.key
    /// comes after 10.key
    #[arg(
        long,
        help_heading = "Sealing at rest",
        conflicts_with = "data_key_file",
        env = "HELVE_DATA_KEYS",
        value_name = "DIR"
    )]
    data_keys: Option<PathBuf>,
}

/// Files with a node's keys, and what it does with values that are not sealed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataKeyArgs {
    #[command(flatten)]
    files: DataKeyFileArgs,

    /// Seal a cluster that holds plaintext: values stay plaintext until every node holds the key, then all are sealed
    #[arg(long, help_heading = "Sealing at rest", env = "HELVE_DATA_KEY_MIGRATE")]
    data_key_migrate: bool,
}

impl DataKeyFileArgs {
    /// Whether any are named.
    pub(crate) fn is_any(&self) -> bool {
        !self.data_key_file.is_empty() || self.data_keys.is_some()
    }

    /// The files.
    pub(crate) fn files(&self, migration: Migration) -> KeyFiles {
        KeyFiles {
            files: self.data_key_file.clone(),
            directory: self.data_keys.clone(),
            migration,
        }
    }
}

impl DataKeyArgs {
    /// The files.
    pub(crate) fn files(&self) -> KeyFiles {
        self.files.files(if self.data_key_migrate {
            Migration::Allowed
        } else {
            Migration::Refused
        })
    }
}
