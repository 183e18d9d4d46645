//! Failpoints: places in the middle of something, where a test makes a node die, wait or fail. No signal from outside hits them.
//!
//! They exist only in builds with the feature `planted`, and compile to nothing in others.
//! `HELVE_FAILPOINT` arms some when a process starts, the file that `HELVE_FAILPOINT_FILE` names
//! whenever it changes: see `Script`. Every passage is counted, armed or not, so that a test can
//! distinguish a place that was not reached from one that had no effect.

#[cfg(feature = "planted")]
mod armed;

#[cfg(feature = "planted")]
pub use armed::{Script, arm, check, pass, passages, passed, watch};

macro_rules! failpoints {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// Such a place.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Failpoint {
            $($(#[$doc])* $variant,)*
        }

        impl Failpoint {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name where it is armed, and in metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

failpoints! {
    /// A node that starts has opened its log and rows, and no port yet.
    StorageOpened => "storage-opened",
    /// Entries wait in memory to be written to the log, and were not reported as durable.
    LogBeforeWrite => "log-before-write",
    /// Entries are durable in the log, and were not reported yet.
    LogBeforeAck => "log-before-ack",
    /// A vote is durable, and was not reported yet.
    VoteBeforeReply => "vote-before-reply",
    /// Commands were committed and applied here, and their callers not answered.
    OutcomeBeforeAnswer => "outcome-before-answer",
    /// Rows were worked out from entries, and not written. Callers may have been answered. It can fail.
    ApplyBeforeWrite => "apply-before-write",
    /// Half of the rows of a batch are written. Only the planted bug `two-writes` ever comes by.
    ApplyBetweenWrites => "apply-between-writes",
    /// Rows are written, and were not reported yet.
    ApplyAfterWrite => "apply-after-write",
    /// A joint membership is applied, and the change of members not finished.
    JointApplied => "joint-applied",
    /// A snapshot's files are there, and its manifest is not.
    BuildCheckpointed => "build-checkpointed",
    /// A snapshot has its mark under the disk key, and has not got its name.
    SnapshotMarked => "snapshot-marked",
    /// A snapshot is whole, and has not got its name.
    BuildDescribed => "build-described",
    /// A snapshot has its name, and what it covers may not be purged yet.
    BuildPublished => "build-published",
    /// The next piece of a snapshot is about to be sent. It can fail.
    SendChunk => "send-chunk",
    /// The next piece of a backup is about to be sent. It can fail.
    BackupChunk => "backup-chunk",
    /// A piece of a snapshot was received. It can fail.
    ReceiveChunk => "receive-chunk",
    /// All files of a snapshot were received and are durable, and nothing is installed. It can fail.
    ReceiveFinished => "receive-finished",
    /// Some of a snapshot's files are copied beside the state, and the next one is not.
    InstallCopying => "install-copying",
    /// A snapshot's files are copied beside the state, and are not opened yet.
    InstallCopied => "install-copied",
    /// The new state is whole and durable, and the pointer names the old one.
    InstallBeforeSwitch => "install-before-switch",
    /// The pointer names the new state, and the process still serves the old one.
    InstallSwitched => "install-switched",
    /// A state that was replaced is about to be removed.
    RemovalBefore => "removal-before",
    /// The new content of a small file (pointer, manifest, identity) is durable beside it, and the old one still counts.
    FileBeforeRename => "file-before-rename",
    /// The log is about to be purged.
    PurgeBeforeWrite => "purge-before-write",
    /// The log's purge is written, and the files of purged entries are still there.
    PurgeAfterWrite => "purge-after-write",
    /// The disk key is about to be written, under data keys that came or went.
    DiskKeyBeforeWrite => "disk-key-before-write",
    /// The disk key is durable under the data keys that are held, and the node does not use these yet.
    DiskKeyWritten => "disk-key-written",
    /// Rows that are taken as they are have a mark, and the log has no tags yet.
    RowsAdopted => "rows-adopted",
    /// The log and the rows fit a disk key that no file has yet, and snapshots do not.
    LogAdopted => "log-adopted",
    /// The recovery of a survivor is under way by its identity, and nothing else is changed.
    RecoveryBegun => "recovery-begun",
    /// The recovery has applied the whole log, and its rows may not be durable.
    RecoveryApplied => "recovery-applied",
    /// The rows name the new cluster, durably, and the log is still the former one's.
    RecoveryNamed => "recovery-named",
    /// A restore is under way by the identity of its node, and no row is there.
    RestoreBegun => "restore-begun",
    /// The rows of a backup are laid out, and are not a cluster's.
    RestoreLaidOut => "restore-laid-out",
    /// The log ends behind the rows of the new cluster, and the node's identity is still the former one.
    RecoveryPurged => "recovery-purged",
}

impl Failpoint {
    /// Whether it can fail, besides killing the process or making it wait: the step after it is
    /// tried again when it failed, but for the writing of rows, which the node ends for.
    #[must_use]
    pub const fn can_fail(self) -> bool {
        matches!(
            self,
            Self::ApplyBeforeWrite
                | Self::SendChunk
                | Self::BackupChunk
                | Self::ReceiveChunk
                | Self::ReceiveFinished
        )
    }
}

/// Passes a place, on a thread that may block.
#[cfg(not(feature = "planted"))]
pub const fn pass(_: Failpoint) {}

/// Passes a place on a runtime's thread.
#[cfg(not(feature = "planted"))]
pub fn passed(_: Failpoint) -> std::future::Ready<()> {
    std::future::ready(())
}

/// Passes a place that can fail, on a thread that may block.
///
/// # Errors
/// If it is armed with `error`: never, without the feature.
#[cfg(not(feature = "planted"))]
pub const fn check(_: Failpoint) -> Result<(), String> {
    Ok(())
}
