//! What `helve backup --follow` prints.

use helve_command::output::bytes;
use serde::Serialize;

use super::super::shown::Shown;

/// A line for each backup and each segment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Backup(Shown),
    Segment {
        /// The backup behind which the archived log began.
        backup: String,
        /// The first entry, and the last one.
        first: u64,
        /// See `first`.
        last: u64,
        /// The cluster's time in the last one, in UTC; none if no entry has one.
        time: Option<String>,
        bytes: usize,
    },
}

/// As a person reads it.
pub(super) fn text(line: &Line) -> String {
    match line {
        Line::Backup(shown) => format!(
            "backup {}: up to entry {}, {}",
            shown.id, shown.revision, shown.time
        ),
        Line::Segment {
            first,
            last,
            time,
            bytes: size,
            ..
        } => {
            let time = time.iter().map(|time| format!("{time}, "));
            let (time, size) = (time.collect::<String>(), bytes(*size as u64));
            format!("archived entries {first} to {last}, {time}{size}")
        }
    }
}
