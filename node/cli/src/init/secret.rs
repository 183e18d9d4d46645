//! One file of a cluster's secrets, and how it came to be there.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::Serialize;

use crate::whole_file::Replace;

/// A file that is there.
#[derive(Debug, Serialize)]
pub(crate) struct Secret {
    pub(crate) file: PathBuf,
    /// What it is for, for people.
    #[serde(rename = "for")]
    pub(crate) purpose: String,
    pub(crate) state: State,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Made,
    Kept,
    /// It had expired, or was about to.
    Renewed,
}

impl Secret {
    pub(super) fn new(file: PathBuf, purpose: impl Into<String>, state: State) -> Self {
        Self {
            file,
            purpose: purpose.into(),
            state,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Made => "made",
            Self::Kept => "kept",
            Self::Renewed => "renewed",
        })
    }
}

/// Makes a file that is not there.
///
/// # Errors
/// What `make` says, or that the file cannot be looked at.
pub(super) fn once(
    file: PathBuf,
    purpose: impl Into<String>,
    make: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<Secret> {
    let state = if is_there(&file)? {
        State::Kept
    } else {
        make(&file)?;
        State::Made
    };
    Ok(Secret::new(file, purpose, state))
}

/// Whether a file is there.
///
/// # Errors
/// If that cannot be told.
pub(super) fn is_there(file: &Path) -> anyhow::Result<bool> {
    let found = file.try_exists();
    found.with_context(|| format!("cannot read {}", file.display()))
}

/// Whether what is there of a pair goes.
///
/// # Errors
/// If it cannot be told what is there.
pub(super) fn replacing(key: &Path) -> anyhow::Result<Replace> {
    Ok(if is_there(key)? {
        Replace::Allowed
    } else {
        Replace::Never
    })
}
