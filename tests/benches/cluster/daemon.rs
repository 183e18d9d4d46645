//! Rivals as processes: found, started in a temporary directory, awaited, and stopped when their
//! owner is dropped.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Result;
use helve_tests::{
    process::{Process, Start},
    wait::{Look, until},
};
use tempfile::TempDir;

/// A product's temporary directory.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new(product: &str) -> Result<Self> {
        let prefix = format!("helve-bench-{product}-");
        Ok(Self(tempfile::Builder::new().prefix(&prefix).tempdir()?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A process that is killed when this is dropped.
pub(crate) struct Daemon(Process);

impl Daemon {
    /// `member` tells the logs of one product's processes apart.
    pub(crate) fn start(
        binary: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<str>>,
        home: &Home,
        member: u16,
    ) -> Result<Self> {
        let start = Start {
            binary: binary.to_owned(),
            arguments: arguments
                .into_iter()
                .map(|argument| argument.as_ref().into())
                .collect(),
            environment: Vec::new(),
        };
        let log = home.path().join(format!("{member}.log"));
        let mut process = Process::new(start, log);
        process.start()?;
        Ok(Self(process))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid().expect("it was started, and is never stopped")
    }
}

/// The binary of this name on the path, or in one of these directories.
pub(crate) fn find(name: &str, elsewhere: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(elsewhere.iter().map(PathBuf::from));
    let mut candidates = directories.map(|directory| directory.join(name));
    candidates.find(|candidate| candidate.is_file())
}

/// Tries until it succeeds, or a product had time enough to become ready.
pub(crate) async fn patiently<T>(
    product: &str,
    mut attempt: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    until(&format!("{product} to become ready"), async || {
        Look::of(attempt().await.map_err(|error| format!("{error:#}")))
    })
    .await
}
