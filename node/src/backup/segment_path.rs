//! Where a segment of the archived log is: `log/ID/FIRST`, below a place for backups.

use std::{ffi::OsStr, path::Path};

/// Where the archived log is, below a place for backups.
pub(super) const LOG_NAME: &str = "log";

/// Digits of the first entry in a segment's name.
const INDEX_DIGITS: usize = 20;

/// The name of the segment with this first entry, in its run.
pub(super) fn digits(index: u64) -> String {
    format!("{index:0INDEX_DIGITS$}")
}

/// The first entry of the segment at this path; `None` if it is that of no segment.
pub(super) fn first_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let first = name.parse::<u64>().ok();
    let first = first.filter(|first| name == digits(*first))?;
    let log = path.parent()?.parent()?.file_name();
    (log == Some(OsStr::new(LOG_NAME))).then_some(first)
}
