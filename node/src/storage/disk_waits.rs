//! Share of recent reads that waited for the disk. Where the operating system holds the rows in
//! memory, many reads on one thread cost less than a thread each; where the disk has them, it is
//! quicker when it is asked for many at once.

use super::recent_ratio::RecentRatio;
use crate::limits::DISK_READS_TOGETHER_MAX;

/// Of the last turns of all threads.
#[derive(Debug)]
pub(crate) struct DiskWaits(RecentRatio);

impl Default for DiskWaits {
    fn default() -> Self {
        Self(RecentRatio::none())
    }
}

impl DiskWaits {
    /// How many reads a thread should take at once: as many as wait about once, so that none waits behind a second wait.
    pub(crate) fn reads_together(&self) -> usize {
        self.0.one_in().min(DISK_READS_TOGETHER_MAX)
    }

    /// Does this many reads, and notes how often that had to wait.
    pub(crate) fn during<R>(&self, reads: usize, read: impl FnOnce() -> R) -> R {
        let before = waits_of_this_thread();
        let done = read();
        let waits = waits_of_this_thread().saturating_sub(before);
        self.0.note(usize::try_from(waits).unwrap_or(reads), reads);
        done
    }
}

/// How often it has given its processor up because it could not go on. Not how long reads take: on a busy machine most of that is
/// other threads' turn.
#[cfg(target_os = "linux")]
fn waits_of_this_thread() -> i64 {
    use nix::sys::resource::{UsageWho, getrusage};
    // The only errors are of the arguments, which are constant.
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches())
}

/// Not told of a thread: reads are done as if none waited.
#[cfg(not(target_os = "linux"))]
fn waits_of_this_thread() -> i64 {
    0
}
