//! The flags of the audit log, and `helve audit`.

mod verify;

use std::{path::PathBuf, time::Duration};

use super::{duration, ending::Outcome, size};
use crate::audit::{Class, Destination, Ids, OnFailure, Settings};

/// Check audit logs
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Verify(verify::Args),
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`](super::ending::Ending).
pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Verify(args) => verify::run(args),
    }
}

/// The flags of a node that keeps an audit log.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AuditArgs {
    /// Record who calls what, one line of JSON a call, in this file; `tracing` sends the lines to the node's own log instead, as events
    /// of the target `audit`
    #[arg(
        long,
        help_heading = "Audit log",
        env = "HELVE_AUDIT_LOG",
        value_name = "FILE|tracing"
    )]
    audit_log: Option<Destination>,

    /// What is recorded; who is turned away always is
    #[arg(
        long,
        help_heading = "Audit log",
        value_enum,
        value_delimiter = ',',
        default_value = "writes,denied,admin",
        hide_short_help = true,
        env = "HELVE_AUDIT",
        value_name = "CLASSES"
    )]
    audit: Vec<Recorded>,

    /// How owners, ids and keys of records stand in the log: `hash` writes an HMAC-SHA-256 in their place, under --audit-key-file, or
    /// under a salt that stands in the log
    #[arg(
        long,
        help_heading = "Audit log",
        value_enum,
        default_value = "plain",
        hide_short_help = true,
        env = "HELVE_AUDIT_IDS",
        value_name = "HOW"
    )]
    audit_ids: Shown,

    /// The file that holds a key of at least 32 random bytes, with which lines are chained and names hashed: without it nobody makes a
    /// chain anew. Other users of the machine must not be able to read it
    #[arg(
        long,
        help_heading = "Audit log",
        hide_short_help = true,
        env = "HELVE_AUDIT_KEY_FILE",
        value_name = "FILE"
    )]
    audit_key_file: Option<PathBuf>,

    /// Size at which the file is put aside under a name with its first line's number, and another one begun
    #[arg(long, help_heading = "Audit log", default_value = "64MiB", value_parser = size::parse, hide_short_help = true, env = "HELVE_AUDIT_SIZE", value_name = "SIZE")]
    audit_size: u64,

    /// How many files that were put aside are kept at least; older ones are removed, which the log says, once --audit-keep-for is over
    #[arg(
        long,
        help_heading = "Audit log",
        default_value_t = 16,
        hide_short_help = true,
        env = "HELVE_AUDIT_KEEP",
        value_name = "N"
    )]
    audit_keep: usize,

    /// How long lines are kept at least. A tenant for whose lines --audit-size and --audit-keep leave no room that long has its further
    /// calls counted, in one line a minute of each kind; `0s` keeps as many files as --audit-keep says, however young
    #[arg(long, help_heading = "Audit log", default_value = "24h", value_parser = duration::parse, hide_short_help = true, env = "HELVE_AUDIT_KEEP_FOR", value_name = "DURATION")]
    audit_keep_for: Duration,

    /// What becomes of calls when no line can be written: `refuse` carries none of them out, deletes included, until it can; `warn` goes
    /// on, and says how many have no line
    #[arg(
        long,
        help_heading = "Audit log",
        value_enum,
        default_value = "refuse",
        hide_short_help = true,
        env = "HELVE_AUDIT_ON_FAILURE",
        value_name = "WHAT"
    )]
    audit_on_failure: Failing,
}

/// See `--audit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Recorded {
    /// Calls that read records.
    Reads,
    /// Calls that change records.
    Writes,
    /// Whoever is turned away.
    Denied,
    /// What operators do with the cluster.
    Admin,
}

/// See `--audit-ids`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shown {
    /// As they are.
    Plain,
    /// Hashed.
    Hash,
}

/// See `--audit-on-failure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Failing {
    /// Calls are refused.
    Refuse,
    /// Calls go on.
    Warn,
}

impl AuditArgs {
    /// What the flags ask for; `None` without `--audit-log`.
    pub(super) fn settings(&self) -> Option<Settings> {
        Some(Settings {
            destination: self.audit_log.clone()?,
            classes: self
                .audit
                .iter()
                .filter_map(|class| class.class())
                .collect(),
            ids: match self.audit_ids {
                Shown::Plain => Ids::Plain,
                Shown::Hash => Ids::Hash,
            },
            key_file: self.audit_key_file.clone(),
            size_bytes: self.audit_size,
            keep: self.audit_keep,
            keep_for: self.audit_keep_for,
            on_failure: match self.audit_on_failure {
                Failing::Refuse => OnFailure::Refuse,
                Failing::Warn => OnFailure::Warn,
            },
        })
    }
}

impl Recorded {
    /// The class of calls; `None` for those that are recorded anyway.
    fn class(self) -> Option<Class> {
        match self {
            Self::Reads => Some(Class::Read),
            Self::Writes => Some(Class::Write),
            Self::Admin => Some(Class::Admin),
            Self::Denied => None,
        }
    }
}
