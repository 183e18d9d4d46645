//! Up to where a restore goes.

use std::fmt;

use crate::quantity::time;

/// Up to where a restore goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// As far as the archive reaches behind the newest backup.
    Latest,
    /// This entry is the last one.
    Revision(u64),
    /// The last entry whose time is not later, in the cluster's milliseconds since the Unix epoch.
    Time(u64),
}

impl fmt::Display for Until {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => formatter.write_str("the latest entry"),
            Self::Revision(revision) => write!(formatter, "revision {revision}"),
            Self::Time(ms) => formatter.write_str(&time(*ms)),
        }
    }
}

impl Until {
    /// Whether an entry of this revision and time, or rows as of it, are within.
    pub(super) fn holds(self, revision: u64, clock_ms: u64) -> bool {
        match self {
            Self::Latest => true,
            Self::Revision(last) => revision <= last,
            Self::Time(last_ms) => clock_ms <= last_ms,
        }
    }
}
