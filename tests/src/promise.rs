//! A broken promise is not a broken test: planted bugs must be found by the first, never by the second.

use std::fmt;

/// A promise of Helve does not hold.
#[derive(Debug)]
pub struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a promise is broken: {}", self.0)
    }
}

impl std::error::Error for Broken {}

impl Broken {
    /// What was seen instead of what was promised.
    #[must_use]
    pub fn new(seen: String) -> Self {
        Self(seen)
    }
}

/// Returns [`Broken`] as an error, with a message as of `format!`, unless the condition holds.
#[macro_export]
macro_rules! promise {
    ($held:expr, $($seen:tt)+) => {
        if !$held {
            return Err($crate::promise::Broken::new(format!($($seen)+)).into());
        }
    };
}

/// Whether an error says that a promise is broken.
#[must_use]
pub fn is_broken(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<Broken>)
}
