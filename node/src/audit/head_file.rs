//! The last durable line, as the node keeps it apart from the log: a log that ends before it was cut.
//!
//! It is written in place after each sync and not synced itself. Killing the process loses nothing that was written; a power cut may
//! bring back an older head, which vouches for fewer lines.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::{chain::Head, file::close_to_others};

/// Its name in the data directory, of the chain of calls and of the chain of calls that were turned away.
pub(super) const CALLS: &str = "audit-head";
/// See [`CALLS`].
pub(super) const DENIED: &str = "audit-denied-head";

/// The file that holds the head, as text that `helve audit verify --head` takes.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: File,
    path: PathBuf,
}

impl HeadFile {
    /// Opens the file in a data directory, and reads it; `None` if there is nothing to read in it.
    /// Other users' rights to it are taken from them.
    pub(super) fn open(data_dir: &Path, name: &str) -> io::Result<(Self, Option<Head>)> {
        let path = data_dir.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(&path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        close_to_others(&file)?;
        let head = text.trim_end().parse().ok();
        if head.is_none() && !text.is_empty() {
            tracing::warn!(path = %path.display(), "the kept head of the audit log cannot be read: the log's own end counts");
        }
        Ok((Self { file, path }, head))
    }

    /// Keeps another head. Its text is always as long, so that the new one covers the old one.
    pub(super) fn keep(&self, head: &Head) -> io::Result<()> {
        let text = format!("{:0>85}\n", head.to_string());
        let kept = self.file.write_all_at(text.as_bytes(), 0);
        kept.map_err(|error| io::Error::other(format!("{}: {error}", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_that_was_kept_last_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let (file, none) = HeadFile::open(dir.path(), CALLS).unwrap();
        assert_eq!(none, None);
        for seq in [u64::MAX, 7] {
            let head = Head { seq, hash: [9; 32] };
            file.keep(&head).unwrap();
            assert_eq!(HeadFile::open(dir.path(), CALLS).unwrap().1, Some(head));
        }
    }
}
