//! Keys in files, as every node of a test reads them.

use anyhow::Result;
use helve_tests::{cluster::Setup, token::write_secret};
use tempfile::TempDir;

use super::nodes;

/// A directory of keys that every node reads.
pub(crate) struct Keys(pub(crate) TempDir);

impl Keys {
    pub(crate) fn new() -> Result<Self> {
        let keys = Self(tempfile::tempdir()?);
        keys.add("1.key", 1)?;
        Ok(keys)
    }

    pub(crate) fn add(&self, name: &str, byte: u8) -> Result<()> {
        write_secret(&self.0.path().join(name), &[byte; 32])
    }

    pub(crate) fn setup(&self) -> Setup {
        self.setup_of(3)
    }

    pub(crate) fn setup_of(&self, count: u64) -> Setup {
        nodes(count).with("HELVE_DATA_KEYS", &self.0.path().display().to_string())
    }
}
