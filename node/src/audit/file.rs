//! The file that lines go to. What was not synced yet is kept in memory, and written again after an error, at the same place: so
//! neither a full disk nor a failed sync leaves half a line behind.

use std::{
    fs::{self, File, Metadata, OpenOptions, Permissions},
    io::{self, BufRead as _, BufReader},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

use super::{
    chain::{Head, SealedLine, hex},
    record::{Facts, Torn},
};

/// Only the node and the operator read who called what.
const MODE: u32 = 0o600;

/// What a mode grants to other users.
const OTHERS: u32 = 0o007;

/// The part of it that lets them write.
pub(super) const OTHERS_WRITE: u32 = 0o002;

/// A file that is being written. No other process writes it: it is locked.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes that are durable.
    synced: u64,
    /// The bytes behind them.
    tail: Vec<u8>,
    /// How many of those are written.
    written: usize,
    /// The number of the first line.
    pub(super) first_seq: u64,
}

/// What a file held when it was opened.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The first line; `None` in a new file.
    pub(super) first: Option<Facts>,
    /// The last whole line; `None` if it is none of ours.
    pub(super) last: Option<Head>,
    /// What follows it.
    pub(super) torn: Option<Torn>,
    /// Whether the file ends as a line does.
    ends: bool,
}

impl LogFile {
    /// Opens a file, or makes it, and reads what it holds. Takes the right to read it from other
    /// users. One that they may write stays as it is, and may not be gone on with: they may have
    /// opened it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another node writes it; else what the operating system says.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Found)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(MODE).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let (found, synced) = scan(&file)?;
        if file.metadata()?.mode() & OTHERS_WRITE == 0 {
            close_to_others(&file)?;
        }
        let mut log = Self {
            path: path.to_owned(),
            file,
            synced,
            tail: Vec::new(),
            written: 0,
            first_seq: found.first.as_ref().map_or(0, |first| first.seq),
        };
        if synced > 0 && !found.ends {
            // What was torn stays, on a line of its own.
            log.append(b"\n");
        }
        Ok((log, found))
    }

    /// Bytes of the file once all is written.
    pub(super) fn len(&self) -> u64 {
        self.synced + self.tail.len() as u64
    }

    /// Bytes that are not durable yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.tail.len()
    }

    /// Whether all is durable.
    pub(super) fn is_synced(&self) -> bool {
        self.tail.is_empty()
    }

    /// Adds a line to what is to be written.
    pub(super) fn append(&mut self, line: &[u8]) {
        self.tail.extend_from_slice(line);
    }

    /// Writes what is not written yet: killing the process does not lose it any more.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let at = self.synced + self.written as u64;
        let wrote = self.file.write_all_at(&self.tail[self.written..], at);
        self.written = if wrote.is_ok() { self.tail.len() } else { 0 };
        wrote
    }

    /// Makes all durable: a power cut does not lose it any more.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        // Pages whose sync failed may count as clean: all is written again.
        self.file.sync_data().inspect_err(|_| self.written = 0)?;
        self.synced += self.tail.len() as u64;
        self.tail.clear();
        self.written = 0;
        Ok(())
    }

    /// Whether the name still leads to this file.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts the file aside, under a name with the number of its first line, if it is where it was. What it holds must be synced.
    pub(super) fn put_aside(&self) -> io::Result<()> {
        debug_assert!(self.is_synced());
        if !self.is_in_place()? {
            return Ok(());
        }
        let name = |suffix: &str| aside(&self.path, &format!("{:020}{suffix}", self.first_seq));
        // A name that is taken is of a chain that started over; its file is kept too.
        let free = (0..).map(|n| {
            if n == 0 {
                name("")
            } else {
                name(&format!("-{n}"))
            }
        });
        let free = free.into_iter().find(|path| !path.exists());
        fs::rename(&self.path, free.unwrap_or_else(|| name("")))?;
        sync_parent(&self.path)
    }
}

/// The permissions of a file without those of other users; `None` if they have none. The group
/// keeps its own: it may be that of what ships the lines.
fn closed(metadata: &Metadata) -> Option<Permissions> {
    let mode = metadata.mode();
    // Without the bits that say what kind of file it is.
    let kept = mode & 0o7777 & !OTHERS;
    (mode & OTHERS != 0).then(|| Permissions::from_mode(kept))
}

fn still_open(path: &str, error: &io::Error) -> io::Error {
    let what = format!("other users may read {path}, and that cannot be taken from them: {error}");
    io::Error::new(error.kind(), what)
}

/// Takes other users' rights to a file of the audit log.
pub(super) fn close_to_others(file: &File) -> io::Result<()> {
    let Some(permissions) = closed(&file.metadata()?) else {
        return Ok(());
    };
    let set = file.set_permissions(permissions);
    set.map_err(|error| still_open("it", &error))
}

/// Takes other users' rights to the files that were put aside.
pub(super) fn close_put_aside(path: &Path) -> io::Result<()> {
    for aside in put_aside(path)? {
        let closed_now = fs::metadata(&aside).and_then(|metadata| match closed(&metadata) {
            Some(permissions) => fs::set_permissions(&aside, permissions),
            None => Ok(()),
        });
        match closed_now {
            // It was shipped and removed in this moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // What ships them made it its own: it is not written any more.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let file = aside.display();
                tracing::warn!(%file, "other users can read this file of the audit log, and another user owns it");
            }
            closed_now => {
                let name = aside.display().to_string();
                closed_now.map_err(|error| still_open(&name, &error))?;
            }
        }
    }
    Ok(())
}

/// Makes the name of a new file durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// The directory of a file.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The files that were put aside, oldest first.
pub(super) fn put_aside(path: &Path) -> io::Result<Vec<PathBuf>> {
    let stem = aside(path, "");
    let stem = stem.file_name().unwrap_or_default().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir(parent(path))? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.as_encoded_bytes().strip_prefix(stem);
        let is_ours = number.and_then(|number| number.get(..20));
        if is_ours.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit)) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn aside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The first line, the last whole one of ours, what follows it, and how long the file is.
fn scan(file: &File) -> io::Result<(Found, u64)> {
    let mut reader = BufReader::new(file);
    let (mut found, mut end) = (Found::default(), 0);
    let (mut line, mut last) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)?;
        if end == 0 && !begins_as_ours(&line) {
            return Err(io::Error::other(
                "it holds something else than an audit log",
            ));
        }
        if bytes == 0 {
            break;
        }
        end += bytes as u64;
        found.ends = line.ends_with(b"\n");
        // Of a whole line nothing but its end may be missing.
        let whole = line.strip_suffix(b"\n").unwrap_or(&line);
        if found.first.is_none() {
            found.first = Facts::of(whole);
        }
        if SealedLine::of(whole).is_some() {
            std::mem::swap(&mut line, &mut last);
            found.torn = None;
        } else {
            found.torn = Some(torn(whole));
        }
    }
    found.last = head_of(last.trim_ascii_end());
    Ok((found, end))
}

fn begins_as_ours(line: &[u8]) -> bool {
    b"{\"seq\":"
        .iter()
        .zip(line)
        .all(|(ours, byte)| ours == byte)
}

fn head_of(line: &[u8]) -> Option<Head> {
    let hash = SealedLine::of(line)?.hash;
    let seq = Facts::of(line)?.seq;
    Some(Head { seq, hash })
}

/// What the line behind it says of a line that was never finished.
pub(super) fn torn(line: &[u8]) -> Torn {
    Torn {
        bytes: line.len() as u64,
        sha256: hex(&Sha256::digest(line)),
    }
}
