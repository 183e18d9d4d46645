//! What a disk does wrong, and how often it did.

use std::{fmt, time::Duration};

/// What a sync does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// It makes durable what was written.
    #[default]
    Works,
    /// The next one fails with EIO, the others work. As on Linux, what it should have written is lost even if a later one succeeds.
    FailsOnce,
    /// All fail with EIO.
    Fails,
}

/// What a disk does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// What a sync does.
    pub sync: Sync,
    /// How much longer each sync takes.
    pub sync_delay: Duration,
    /// How much longer each write takes.
    pub write_delay: Duration,
    /// How much it holds: beyond it, writes fail with ENOSPC.
    pub capacity_bytes: u64,
    /// Whether it takes anything at all; otherwise writes fail with EROFS.
    pub access: Access,
}

/// Whether a disk takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It does.
    ReadWrite,
    /// It does not.
    ReadOnly,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            sync: Sync::Works,
            sync_delay: Duration::ZERO,
            write_delay: Duration::ZERO,
            capacity_bytes: 64 << 30,
            access: Access::ReadWrite,
        }
    }
}

/// What a disk did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Syncs of files and directories that worked.
    pub syncs: u64,
    /// Syncs that failed with EIO.
    pub failed_syncs: u64,
    /// Writes and syncs that took longer.
    pub delayed: u64,
    /// Calls that failed with ENOSPC.
    pub full: u64,
    /// Calls that failed with EROFS.
    pub read_only: u64,
}

impl fmt::Display for DiskCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.syncs, "syncs"),
            (self.failed_syncs, "syncs failed with EIO"),
            (self.delayed, "calls delayed"),
            (self.full, "calls failed with ENOSPC"),
            (self.read_only, "calls failed with EROFS"),
        ];
        let some = all.iter().filter(|(count, _)| *count > 0);
        let some: Vec<_> = some
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        f.write_str(&some.join(", "))
    }
}
