//! The flags of the audit log, and `helve audit`.

mod verify;

use std::{path::PathBuf, time::Duration};

use helve_command::{duration, ending::Outcome};
use helve_node::audit::{Class, Destination, Ids, OnFailure, Settings};

use super::size;

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

/// Flags of a node's audit log.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AuditArgs {
    /// File that records who calls what, one line of JSON a call; `tracing` sends the lines to the
    /// node's own log instead, as events of the target `audit`
    #[arg(
        long,
        help_heading = "Audit log",
        env = "HELVE_AUDIT_LOG",
        value_name = "FILE|tracing"
    )]
    audit_log: Option<Destination>,

    /// Classes of calls to record; refused callers are always recorded
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

    /// Form of owners, ids and keys in the log: `hash` writes an HMAC-SHA-256 instead, under
    /// --audit-key-file, or under a salt that the log states
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

    /// File with a key of at least 32 random bytes, which chains lines and hashes names: a chain
    /// cannot be forged without it. Other users of the machine must not be able to read it
    #[arg(
        long,
        help_heading = "Audit log",
        hide_short_help = true,
        env = "HELVE_AUDIT_KEY_FILE",
        value_name = "FILE"
    )]
    audit_key_file: Option<PathBuf>,

    /// Size at which the file is put aside, under a name with the number of its first line, and
    /// another one begins
    #[arg(long, help_heading = "Audit log", default_value = "64MiB", value_parser = size::parse_file, hide_short_help = true, env = "HELVE_AUDIT_SIZE", value_name = "SIZE")]
    audit_size: u64,

    /// Least number of files put aside that are kept; older ones are removed once --audit-keep-for
    /// is over, and the log says so
    #[arg(
        long,
        help_heading = "Audit log",
        default_value_t = 16,
        hide_short_help = true,
        env = "HELVE_AUDIT_KEEP",
        value_name = "N"
    )]
    audit_keep: usize,

    /// Size at which the file of calls that were turned away, FILE.denied, is put aside
    #[arg(long, help_heading = "Audit log", default_value = "16MiB", value_parser = size::parse_file, hide_short_help = true, env = "HELVE_AUDIT_DENIED_SIZE", value_name = "SIZE")]
    audit_denied_size: u64,

    /// Least number of files of calls that were turned away that are kept after they were put aside
    #[arg(
        long,
        help_heading = "Audit log",
        default_value_t = 16,
        hide_short_help = true,
        env = "HELVE_AUDIT_DENIED_KEEP",
        value_name = "N"
    )]
    audit_denied_keep: usize,

    /// Least time that lines are kept. If --audit-size and --audit-keep leave no room for a
    /// tenant's lines for that long, its further calls are counted, one line a minute of each kind.
    /// `0s` keeps as many files as --audit-keep says, however young
    #[arg(long, help_heading = "Audit log", default_value = "24h", value_parser = duration::parse, hide_short_help = true, env = "HELVE_AUDIT_KEEP_FOR", value_name = "DURATION")]
    audit_keep_for: Duration,

    /// What happens to calls while no line can be written: `refuse` carries none of them out,
    /// deletes included; `warn` continues, and says how many have no line
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
    /// Callers that are refused.
    Denied,
    /// Calls that manage the cluster.
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
    /// Calls continue.
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
            denied_size_bytes: self.audit_denied_size,
            denied_keep: self.audit_denied_keep,
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
