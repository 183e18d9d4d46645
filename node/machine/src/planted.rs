//! Planted bugs: each safety property has one that breaks it, so that tests can show that they would notice.
//!
//! They exist only in builds with the feature `planted`, which a release build refuses. The bug is chosen at run time.

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

            /// Its name on a command line.
            #[must_use]
            pub fn as_str(self) -> &'static str {
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
    /// The machine lets records expire after half their time.
    EarlyExpiry = 7 => "early-expiry",
    /// The log writer acknowledges without fsync.
    SkipFsync = 4 => "skip-fsync",
    /// Reads skip the read index: they may be stale.
    ReadWithoutReadIndex = 5 => "read-without-read-index",
    /// The node gets no entropy for ids: no bug of its own, but what it must refuse to mint without.
    NoEntropy = 6 => "no-entropy",
}

/// No bug has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no planted bug has this name")]
pub struct UnknownPlant;

#[cfg(feature = "planted")]
mod chosen {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    use super::Plant;

    static CHOSEN: AtomicU8 = AtomicU8::new(0);
    static KNOWS_NEXT_LEVEL: AtomicBool = AtomicBool::new(false);

    /// Plants a bug in this process, instead of the one before.
    pub fn choose(plant: Plant) {
        CHOSEN.store(plant as u8, Ordering::Relaxed);
    }

    /// Takes the planted bug out again.
    pub fn clear() {
        CHOSEN.store(0, Ordering::Relaxed);
    }

    /// Whether this bug is planted.
    #[must_use]
    pub fn is(plant: Plant) -> bool {
        CHOSEN.load(Ordering::Relaxed) == plant as u8
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
pub use chosen::{choose, clear, is, knows_next_level, learn_next_level};

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
