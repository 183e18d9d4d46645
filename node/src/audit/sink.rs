//! Where finished lines go: to a file that is put aside when it is large, or to the node's own log.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use super::{
    chain::{Head, Seal, hex},
    file::{self, LogFile},
    names::Ids,
    record::{FORMAT, Record, Torn, content, line},
};
use crate::stamp;

/// The log as it is written: numbers and hashes are given here, so that lines are in the order of their chain.
pub(super) struct Sink {
    pub(super) seal: Seal,
    /// The last line so far.
    pub(super) head: Head,
    pub(super) place: Place,
    /// What the first line of each file says.
    pub(super) node: String,
    pub(super) ids: Ids,
    pub(super) salt: String,
    /// What the chain is of; `None`: of calls.
    pub(super) log: Option<&'static str>,
}

/// Where lines go.
pub(super) enum Place {
    /// To a file.
    File(Files),
    /// To the node's own log.
    Tracing,
}

/// The file that is written, and those before it.
pub(super) struct Files {
    pub(super) current: LogFile,
    pub(super) path: PathBuf,
    pub(super) size_bytes: u64,
    /// How many that were put aside are kept at least.
    pub(super) keep: usize,
    /// How long each is kept at least.
    pub(super) keep_for: Duration,
}

impl Sink {
    /// Adds a line. It is written by [`Sink::write`].
    pub(super) fn append(&mut self, wall_ms: u64, record: &Record<'_>) {
        self.append_content(wall_ms, &content(record));
    }

    /// Adds a line of a record's part.
    pub(super) fn append_content(&mut self, wall_ms: u64, content: &[u8]) {
        let line = line(&self.seal, &mut self.head, wall_ms, content);
        match &mut self.place {
            Place::File(files) => {
                if files.current.first_seq == 0 {
                    files.current.first_seq = self.head.seq;
                }
                files.current.append(&line);
            }
            Place::Tracing => {
                let line = String::from_utf8_lossy(line.trim_ascii_end());
                tracing::info!(target: "audit", "{line}");
            }
        }
    }

    /// Says at the start of a file what it is.
    pub(super) fn open(&mut self, torn: Option<Torn>) {
        let (node, salt) = (self.node.clone(), self.salt.clone());
        let opened = Record::Opened {
            format: FORMAT,
            node: &node,
            seal: self.seal.name(),
            ids: self.ids,
            salt: &salt,
            log: self.log,
            prev: hex(&self.head.hash),
            torn,
        };
        self.append(stamp::wall_ms(), &opened);
    }

    /// Writes what was added: killing the process does not lose it any more.
    pub(super) fn write(&mut self) -> io::Result<()> {
        match &mut self.place {
            Place::File(files) => files.current.write(),
            Place::Tracing => Ok(()),
        }
    }

    /// Makes what was added durable, and begins another file if this one is large, or somebody has moved or removed it.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let Place::File(files) = &mut self.place else {
            return Ok(());
        };
        files.current.sync()?;
        let in_place = files.current.is_in_place()?;
        if in_place && files.current.len() < files.size_bytes {
            return Ok(());
        }
        if !in_place {
            let path = files.path.display();
            tracing::warn!(%path, "the audit log was moved or removed: it goes on in a new file");
        }
        self.begin_file(None)
    }

    /// Puts the current file aside and begins another; what is in the current one must be synced.
    pub(super) fn begin_file(&mut self, torn: Option<Torn>) -> io::Result<()> {
        let Place::File(files) = &mut self.place else {
            return Ok(());
        };
        files.current.put_aside()?;
        let (current, found) = LogFile::open(&files.path)?;
        if found.first.is_some() || found.torn.is_some() {
            return Err(io::Error::other(
                "somebody else has begun a file in its place",
            ));
        }
        file::sync_parent(&files.path)?;
        files.current = current;
        let removed = files.prune();
        self.open(torn);
        for file in removed? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            self.append(stamp::wall_ms(), &Record::Removed { file: &name });
        }
        let Place::File(files) = &mut self.place else {
            return Ok(());
        };
        files.current.sync()
    }

    /// Bytes that were added and are not durable yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        match &self.place {
            Place::File(files) => files.current.waiting_bytes(),
            Place::Tracing => 0,
        }
    }

    /// Whether all that was added is durable, as far as that is this node's to see to.
    pub(super) fn is_synced(&self) -> bool {
        match &self.place {
            Place::File(files) => files.current.is_synced(),
            Place::Tracing => true,
        }
    }
}

impl Files {
    /// Removes the oldest of the files that were put aside, down to as many as are kept, but none that was written lately.
    fn prune(&self) -> io::Result<Vec<PathBuf>> {
        let mut old = file::put_aside(&self.path)?;
        old.truncate(old.len().saturating_sub(self.keep));
        let mut removed = Vec::new();
        for file in old {
            if !self.is_old(&file)? {
                break;
            }
            fs::remove_file(&file)?;
            removed.push(file);
        }
        Ok(removed)
    }

    /// Whether the last line of a file is older than files are kept for. A time to come is not.
    fn is_old(&self, file: &Path) -> io::Result<bool> {
        let modified = fs::metadata(file)?.modified()?;
        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Duration::from_millis(stamp::wall_ms());
        Ok(now.saturating_sub(modified) >= self.keep_for)
    }

    /// Bytes of the files that are not old yet.
    pub(super) fn young_bytes(&self) -> io::Result<u64> {
        let mut bytes = self.current.len();
        for file in file::put_aside(&self.path)? {
            if !self.is_old(&file)? {
                bytes += fs::metadata(&file)?.len();
            }
        }
        Ok(bytes)
    }
}
