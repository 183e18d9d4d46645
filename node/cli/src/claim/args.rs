//! The flags of `helve claim`.

use std::{ffi::OsString, time::Duration};

use anyhow::anyhow;
use bytes::Bytes;
use helve_command::{cluster::ClusterArgs, duration, output::OutputArgs};
use sha2::{Digest as _, Sha256};

use crate::value::{self, ValueArgs};

/// Claim a side effect that must happen once, or run a command once
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Begin(BeginArgs),
    Finish(FinishArgs),
    Abandon(AbandonArgs),
    Run(RunArgs),
}

/// Flags of the commands on one claim.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Store of the claim: 1 to 64 bytes of [a-z0-9_-]. It holds nothing but claims
    #[arg(long, env = "HELVE_STORE", value_name = "NAME")]
    pub(super) store: String,

    /// Owner of the claim, an end user; empty for none. Owners do not meet
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "HELVE_OWNER",
        value_name = "SUBJECT"
    )]
    pub(super) owner: String,
}

/// Flags of the commands that ask for a lease.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LeaseArgs {
    /// How long the lease lasts: longer than the side effect ever takes, at most 24h. It is not
    /// renewed. A holder that dies keeps others out for so long
    #[arg(long, default_value = "10m", value_parser = duration::parse_wait, env = "HELVE_LEASE", value_name = "DURATION")]
    pub(super) lease: Duration,

    /// Note for callers that find the claim in flight, such as who works on it
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        env = "HELVE_NOTE",
        value_name = "TEXT"
    )]
    pub(super) note: String,

    /// Content that says what the side effect is, of which the SHA-256 is kept: a text, `@FILE` for
    /// a file's content, or `-` for standard input. The same key with other content is a conflict
    #[arg(long, env = "HELVE_DIGEST_OF", value_name = "CONTENT")]
    digest_of: Option<String>,

    /// Go on although an earlier holder may have carried out the side effect: it can be repeated, or
    /// the caller finds out
    #[arg(long, env = "HELVE_MAY_REPEAT")]
    pub(super) may_repeat: bool,
}

impl LeaseArgs {
    /// The digest of the content that was given, or else of these parts.
    ///
    /// # Errors
    /// If the content cannot be read.
    pub(super) fn digest<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> anyhow::Result<Bytes> {
        let mut hasher = Sha256::new();
        match &self.digest_of {
            Some(said) => {
                let content =
                    value::read(said).map_err(|error| anyhow!("--digest-of: {error:#}"))?;
                hasher.update(content);
            }
            // Behind each a byte that no argument has: `a b` and `ab` are two commands.
            None => parts.into_iter().for_each(|part| {
                hasher.update(part);
                hasher.update([0_u8]);
            }),
        }
        Ok(Bytes::copy_from_slice(&hasher.finalize()))
    }
}

/// Ask for the lease of a key, and print its fence
///
/// The caller that gets the lease carries out the side effect, and then runs `helve claim finish`
/// with the fence. If an earlier lease ended without a finish, the side effect may have happened:
/// then the command gives the lease up and says so, unless --may-repeat is given.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  fence=$(helve claim begin order-17/pay --store payments --digest-of @order.json --lease 1m)
  helve claim begin order-17/pay --store payments --output json      who has it, or its result

Exit status: 0 the caller has the lease, 1 another has it, it is done, it is another's, or it may have happened; others as
`helve --help` lists them.")]
pub(crate) struct BeginArgs {
    /// Key of the side effect, such as order-17/pay: 1 to 128 bytes
    pub(super) key: String,
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
}

/// Keep the result of a side effect, for all who claim its key later
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve claim finish order-17/pay --store payments --fence \"$fence\" --value '{\"receipt\":\"r-7\"}'
  helve claim finish order-17/pay --store payments --fence \"$fence\" --value @receipt.json --ttl 30d

Exit status: 0 kept, or kept before under this fence; 1 the lease is lost, and nothing kept; others as `helve --help` lists them.")]
pub(crate) struct FinishArgs {
    /// Key of the side effect
    pub(super) key: String,
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) value: ValueArgs,
    #[command(flatten)]
    pub(super) result: ResultArgs,

    /// Fence of the lease, as `helve claim begin` printed it
    #[arg(long, env = "HELVE_FENCE", value_name = "FENCE")]
    pub(super) fence: u64,
}

/// How long a result is kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ResultArgs {
    /// How long the result is kept, such as 7d, or `never` for no end. Then the key is free
    #[arg(long, default_value = "never", value_parser = kept, env = "HELVE_TTL", value_name = "TTL")]
    ttl: Kept,
}

/// How long a result is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    UntilDeleted,
    For(Duration),
}

fn kept(text: &str) -> Result<Kept, String> {
    match text {
        "never" => Ok(Kept::UntilDeleted),
        _ => duration::parse(text)
            .map(Kept::For)
            .map_err(|why| format!("{why}, or never")),
    }
}

impl ResultArgs {
    /// The lifetime on the wire; `None`: until the key is deleted.
    pub(super) fn ttl_ms(&self) -> Option<u64> {
        match self.ttl {
            Kept::UntilDeleted => None,
            Kept::For(time) => Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Free a key at once: the caller did not carry out the side effect
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve claim abandon order-17/pay --store payments --fence \"$fence\"

Exit status: 0 the key is free, 1 the lease is lost, or it is finished and the result stays; others as `helve --help` lists them.")]
pub(crate) struct AbandonArgs {
    /// Key of the side effect
    pub(super) key: String,
    #[command(flatten)]
    pub(super) common: Common,

    /// Fence of the lease, as `helve claim begin` printed it
    #[arg(long, env = "HELVE_FENCE", value_name = "FENCE")]
    pub(super) fence: u64,

    /// Say that the side effect did not happen under an earlier lease either
    #[arg(long, env = "HELVE_NEVER_HAPPENED")]
    pub(super) never_happened: bool,
}

/// Run a command once for a key, however many machines are asked to
///
/// The first caller gets the lease and runs the command. If it ends well, its standard output is kept
/// as the result, and later callers print that instead of running it. The command finds the claim in
/// the variables `HELVE_CLAIM_KEY`, `HELVE_CLAIM_FENCE`, `HELVE_CLAIM_EARLIER` (expired, finished,
/// abandoned or empty) and `HELVE_CLAIM_EARLIER_FENCE`.
///
/// If the command fails, it may have done a part: the lease ends by itself, and the next caller is told
/// that the side effect may have happened. It then runs nothing, unless --may-repeat is given.
///
/// SIGTERM is passed on to the command itself, not to processes that it started. Once the command has
/// ended, SIGTERM and SIGINT stop the tries to keep its result. Output of a process that it left
/// behind is read for one second more.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve claim run backup/$(date +%F) --store cron --lease 2h --ttl 7d -- /usr/local/bin/backup.sh
  helve claim run report/$(date +%G-%V) --store cron --may-repeat -- make-report --atomic
  helve claim run order-17/pay --store payments --digest-of @order.json --undone-on-failure -- pay order.json

Exit status: 0 the command ended well, now or for an earlier caller; 1 another has the lease, the key is another command's, or it
may have happened; 2 the command cannot be started, too; 4 the command failed, or its result was not kept; 5 a signal stopped
the tries to keep its result, too; others as `helve --help` lists them.")]
pub(crate) struct RunArgs {
    /// Key of the side effect, such as backup/2026-11-27: 1 to 128 bytes
    pub(super) key: String,
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
    #[command(flatten)]
    pub(super) result: ResultArgs,

    /// Abandon the claim if the command exits with a status other than 0: then it certainly did nothing,
    /// and the next caller runs it at once. A command that a signal ended did not say so: its claim
    /// ends with the lease
    #[arg(long, env = "HELVE_UNDONE_ON_FAILURE")]
    pub(super) undone_on_failure: bool,

    /// Command to run, and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(digest_of: Option<&str>) -> LeaseArgs {
        LeaseArgs {
            lease: Duration::from_secs(1),
            note: String::new(),
            digest_of: digest_of.map(str::to_owned),
            may_repeat: false,
        }
    }

    #[test]
    fn a_digest_is_that_of_the_content_or_of_each_part() {
        let of = |digest_of, parts: &[&'static str]| {
            let parts = parts.iter().map(|part| part.as_bytes());
            lease(digest_of).digest(parts).unwrap()
        };
        let said = of(Some("abc"), &["a"]);
        assert_eq!(
            data_encoding::HEXLOWER.encode(&said),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(said, of(Some("abc"), &["b"]));
        assert_eq!(of(None, &["a", "b"]), of(None, &["a", "b"]));
        assert_ne!(of(None, &["a", "b"]), of(None, &["ab"]));
        assert_ne!(of(None, &["a", ""]), of(None, &["a"]));
        let missing = lease(Some("@/no/such/file")).digest([]);
        assert!(missing.unwrap_err().to_string().contains("/no/such/file"));
    }

    #[test]
    fn a_result_is_kept_for_a_time_or_until_it_is_deleted() {
        assert_eq!(kept("never"), Ok(Kept::UntilDeleted));
        assert_eq!(kept("2s"), Ok(Kept::For(Duration::from_secs(2))));
        assert!(kept("keep").unwrap_err().contains("or never"));
    }
}
