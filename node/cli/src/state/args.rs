//! The flags of `helve state`.

use helve_command::{cluster::ClusterArgs, output::OutputArgs};

use crate::lifetime::LifetimeArgs;

/// Store, retrieve, delete and list values under keys
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Store(StoreArgs),
    /// Print a key's value
    #[command(after_long_help = "Examples:
  helve state retrieve users/7
  helve state retrieve users/7 --owner alice --output json

Exit status: 0 found, 1 there is no such key; others as `helve --help` lists them.")]
    Retrieve(KeyArgs),
    Delete(DeleteArgs),
    List(ListArgs),
    /// Say whether a key exists
    #[command(after_long_help = "Examples:
  helve state exists users/7 && echo yes

Exit status: 0 there is, 1 there is none; others as `helve --help` lists them.")]
    Exists(KeyArgs),
    BatchStore(BatchStoreArgs),
    BatchRetrieve(BatchRetrieveArgs),
}

/// Flags of the commands on keys.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Owner of the keys, an end user; empty for none. For any other owner they do not exist
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "HELVE_OWNER",
        value_name = "SUBJECT"
    )]
    pub(super) owner: String,
}

/// Store a value under a key
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve state store users/7 '{\"name\":\"Ada\"}'
  helve state store users/7 @user.json --ttl 7d
  helve state store lock/7 '\"me\"' --if-revision 0        only if the key does not exist

Exit status: 0 stored, 1 the key has another revision; others as `helve --help` lists them.")]
pub(crate) struct StoreArgs {
    /// The key: 1 to 1,024 bytes of UTF-8 without NUL
    pub(super) key: String,

    /// Value: JSON, `@FILE` for a file's content, or `-` for standard input
    #[arg(allow_negative_numbers = true, value_name = "JSON")]
    pub(super) value: String,

    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) lifetime: LifetimeArgs,

    /// Store the value as it is, even if it is not JSON
    #[arg(long, env = "HELVE_RAW")]
    pub(super) raw: bool,

    /// Store only if the key has this revision; 0: only if the key does not exist
    #[arg(long, env = "HELVE_IF_REVISION", value_name = "REVISION")]
    pub(super) if_revision: Option<u64>,
}

/// A key.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KeyArgs {
    /// Key
    pub(super) key: String,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Delete a key; an absent key is not an error
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve state delete users/7
  helve state delete users/7 --if-revision 42

Exit status: 0 the key does not exist any more, 1 the key has another revision; others as `helve --help` lists them.")]
pub(crate) struct DeleteArgs {
    /// Key
    pub(super) key: String,
    #[command(flatten)]
    pub(super) common: Common,

    /// Revision that the key must have
    #[arg(long, env = "HELVE_IF_REVISION", value_name = "REVISION")]
    pub(super) if_revision: Option<u64>,
}

/// List keys that begin with a prefix, in the order of their bytes, from one view
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve state list
  helve state list users/ --values --output json")]
pub(crate) struct ListArgs {
    /// Prefix of the keys; all keys if left out
    #[arg(default_value = "", hide_default_value = true)]
    pub(super) prefix: String,
    #[command(flatten)]
    pub(super) common: Common,

    /// Show values too
    #[arg(long, env = "HELVE_VALUES")]
    pub(super) values: bool,
}

/// Store several values, all or none
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve state batch-store '{\"a\": 1, \"b\": {\"c\": 2}}'
  helve state batch-store @items.json --ttl 1h")]
pub(crate) struct BatchStoreArgs {
    /// A JSON object of at most 128 keys with their values, `@FILE`, or `-` for standard input
    #[arg(value_name = "JSON")]
    pub(super) items: String,
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) lifetime: LifetimeArgs,
}

/// Print the values of several keys, all from one view
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve state batch-retrieve a b c --output json

Exit status: 0 all found, 1 at least one is absent; others as `helve --help` lists them.")]
pub(crate) struct BatchRetrieveArgs {
    /// Keys, at most 128
    #[arg(required = true)]
    pub(super) keys: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn stored_value_may_be_a_negative_number() {
        let command = StoreArgs::augment_args(clap::Command::new("helve"));
        let parsed = command.try_get_matches_from(["helve", "k", "-1.5", "--ttl", "1h"]);
        let said = parsed.unwrap().get_one::<String>("value").cloned();
        assert_eq!(said.as_deref(), Some("-1.5"));
    }
}
