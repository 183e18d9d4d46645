//! Planted bugs: each safety property has one that breaks it, so that tests can show that they would notice.
//!
//! They exist only in builds with the feature `planted`, which a release build refuses. The bug is
//! chosen at run time. How often its line was executed is counted, so that a test that noticed
//! nothing can distinguish a bug that was never executed from one that was not found.

#[cfg(all(feature = "planted", not(debug_assertions)))]
compile_error!(
    "the feature `planted` breaks promises on purpose: it must not stand in a release build"
);

macro_rules! plants {
    ($($(#[$doc:meta])* $variant:ident = $number:literal => $text:literal,)*) => {
        /// A bug to plant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Plant {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Plant {
            /// Every bug, for help texts and tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name on a command line and in metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::str::FromStr for Plant {
            type Err = UnknownPlant;

            fn from_str(text: &str) -> Result<Self, UnknownPlant> {
                match text { $($text => Ok(Self::$variant),)* _ => Err(UnknownPlant) }
            }
        }
    };
}

plants! {
    /// The machine forgets which calls it has executed: a retry takes effect twice.
    ReplayOff = 1 => "replay-off",
    /// The machine does not compare `if_revision`: updates get lost.
    IgnoreRevision = 2 => "ignore-revision",
    /// The machine serves records after their deadline.
    ServeExpired = 3 => "serve-expired",
    /// The log writer acknowledges without fsync, and leaves it to the operating system when, and whether, the disk gets it.
    SkipFsync = 4 => "skip-fsync",
    /// Reads skip the read index, and the quorum round with it: any node answers from what it happens to have.
    ReadWithoutReadIndex = 5 => "read-without-read-index",
    /// The node gets no entropy for ids: no bug of its own, but what it must refuse to mint without.
    NoEntropy = 6 => "no-entropy",
    /// The machine lets records expire after half their time.
    EarlyExpiry = 7 => "early-expiry",
    /// The log calls entries durable as soon as they are queued for the disk.
    AckBeforeSync = 8 => "ack-before-sync",
    /// Rows are written before the entries that they come from are durable on this node.
    ApplyBeforeDurable = 9 => "apply-before-durable",
    /// The leader answers a read index without asking a quorum whether it still leads.
    ReadWithoutQuorum = 10 => "read-without-quorum",
    /// Each replica dates a command by its own wall clock instead of the leader's stamp.
    LocalClock = 11 => "local-clock",
    /// The leader stamps with its bare wall clock, whatever the others vouch for.
    WildStamp = 12 => "wild-stamp",
    /// A batch of rows is written in two writes.
    TwoWrites = 13 => "two-writes",
    /// A snapshot counts before all of it is there.
    HalfInstall = 14 => "half-install",
    /// A node whose disk was lost comes back as the voter that it was.
    ReuseId = 15 => "reuse-id",
    /// The owner is no part of a row's key.
    OwnerNotInKey = 16 => "owner-not-in-key",
    /// The machine does not add up what is in use. On one node alone it is a replica that has gone wrong.
    UsageOff = 17 => "usage-off",
    /// Values of any size are taken.
    NoLimit = 18 => "no-limit",
    /// A peer's answer to entries counts for requests that were sent after the one that it answers.
    AnswerAhead = 19 => "answer-ahead",
    /// A node whose disk was put back to an older state takes part as if it had lost nothing.
    TrustOldDisk = 20 => "trust-old-disk",
    /// A watch that goes on after a revision begins with what is new, not with what its caller missed.
    WatchGap = 21 => "watch-gap",
    /// The leader sees that a majority of walls agrees on another time, and does not return to it.
    TimeStays = 22 => "time-stays",
    /// The machine gives out a lease of a claim that is in flight.
    LeaseTwice = 23 => "lease-twice",
    /// An MCP server tells browsers nothing, so that no page reads an answer. It is carried out in the crate `helve-mcp`.
    NoCors = 24 => "no-cors",
}

/// No bug has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no planted bug has this name")]
pub struct UnknownPlant;

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

    use super::Plant;

    static CHOSEN: AtomicU8 = AtomicU8::new(0);
    static KNOWS_NEXT_LEVEL: AtomicBool = AtomicBool::new(false);
    static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

    /// Plants a bug in this process, instead of the one before.
    pub fn choose(plant: Plant) {
        CHOSEN.store(plant as u8, Ordering::Relaxed);
        EXECUTIONS.store(0, Ordering::Relaxed);
    }

    /// Takes the planted bug out again.
    pub fn clear() {
        CHOSEN.store(0, Ordering::Relaxed);
    }

    /// Whether this bug is planted. Asked where the bug would be, and only where it makes a difference: a yes counts as executed.
    #[must_use]
    pub fn is(plant: Plant) -> bool {
        if CHOSEN.load(Ordering::Relaxed) != plant as u8 {
            return false;
        }
        if EXECUTIONS.fetch_add(1, Ordering::Relaxed) == 0 {
            // For those who look at what a dead process left.
            eprintln!("planted bug executed: {}", plant.as_str());
        }
        true
    }

    /// The planted bug, and how often this process has executed it; `None` if none is planted.
    #[must_use]
    pub fn executions() -> Option<(Plant, u64)> {
        let chosen = CHOSEN.load(Ordering::Relaxed);
        let plant = Plant::ALL.iter().find(|plant| **plant as u8 == chosen)?;
        Some((*plant, EXECUTIONS.load(Ordering::Relaxed)))
    }

    /// From now on this process supports one feature level more: no bug, but an upgrade to try.
    pub fn learn_next_level() {
        KNOWS_NEXT_LEVEL.store(true, Ordering::Relaxed);
    }

    /// Whether this process supports one feature level more.
    #[must_use]
    pub fn knows_next_level() -> bool {
        KNOWS_NEXT_LEVEL.load(Ordering::Relaxed)
    }
}

#[cfg(feature = "planted")]
pub use chosen::{choose, clear, executions, is, knows_next_level, learn_next_level};

/// Whether this bug is planted: never, without the feature.
#[cfg(not(feature = "planted"))]
#[must_use]
pub const fn is(_: Plant) -> bool {
    false
}

/// Whether this process supports one feature level more: never, without the feature.
#[cfg(not(feature = "planted"))]
#[must_use]
pub const fn knows_next_level() -> bool {
    false
}
