//! What an operator asks of the audit log.

use std::{convert::Infallible, path::PathBuf, str::FromStr, time::Duration};

use super::{event::Class, names::Ids};

/// What an operator asks of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--audit-log`.
    pub destination: Destination,
    /// `--audit`: what is recorded, besides refused calls.
    pub classes: Vec<Class>,
    /// `--audit-ids`.
    pub ids: Ids,
    /// `--audit-key-file`.
    pub key_file: Option<PathBuf>,
    /// `--audit-size`, in bytes: a file that has reached it is put aside.
    pub size_bytes: u64,
    /// `--audit-keep`: how many files that were put aside are kept at least.
    pub keep: usize,
    /// `--audit-denied-size`: the same of the file of calls that were turned away.
    pub denied_size_bytes: u64,
    /// `--audit-denied-keep`: the same of those files.
    pub denied_keep: usize,
    /// `--audit-keep-for`: how long lines are kept at least; zero: as many files as are kept, however young.
    pub keep_for: Duration,
    /// `--audit-on-failure`.
    pub on_failure: OnFailure,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// To this file.
    File(PathBuf),
    /// To the node's own log, as events of the target `audit`: what collects that log keeps them.
    Tracing,
}

impl FromStr for Destination {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "tracing" => Self::Tracing,
            file => Self::File(file.into()),
        })
    }
}

/// What becomes of calls that should be recorded when no line can be written: the disk is full or broken, or the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// They are not carried out, whatever they are, until lines can be written again. So no call is carried out that could not be seen
    /// afterwards.
    Refuse,
    /// They are carried out. How many have no line is said in the log, by a metric and in the log of the node.
    Warn,
}
