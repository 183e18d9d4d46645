//! The file: a head, then entries, each after its length and the checksums of both. What was appended is synced before anybody acts on it.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use helve_client::{Error, ErrorKind};
use prost::Message as _;
use rustix::fs::{FlockOperation, flock};

use super::entry::Entry;
use crate::private_files;

const HEAD: &[u8] = b"helve write queue 2\n";
/// Bytes of length, its checksum, and the entry's.
const FRAME_BYTES: usize = 12;

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// An append, or the file's replacement, failed, and what is on disk is not known any more.
    is_broken: bool,
    /// Held as long as the journal is: it goes with the process.
    _lock: File,
}

impl Journal {
    /// The journal with all that it holds. A last entry that a crash cut off was never acted on, and is dropped.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>), Error> {
        let lock = lock(&beside(path, ".lock"))?;
        let found = match fs::read(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(path, error)),
        };
        let (entries, whole) = read(path, &found)?;
        let mut journal = Self {
            path: path.to_owned(),
            file: private_files::open(File::options().create(true).append(true), path)
                .map_err(|error| failed(path, error))?,
            bytes: 0,
            is_broken: false,
            _lock: lock,
        };
        if whole < HEAD.len() || whole < found.len() {
            journal.rewrite(&entries)?;
        } else {
            journal.bytes = found.len() as u64;
        }
        Ok((journal, entries))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends and syncs. After an error it takes nothing more: a sync that failed cannot be made good by another.
    pub(super) fn append(&mut self, entry: &Entry) -> Result<(), Error> {
        if self.is_broken {
            let message = "an earlier write to the queue failed: open it again";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let frame = frame(entry);
        let appended = self
            .file
            .write_all(&frame)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = appended {
            self.is_broken = true;
            return Err(failed(&self.path, error));
        }
        self.bytes += frame.len() as u64;
        Ok(())
    }

    /// Replaces all by these: wholly, or not at all.
    pub(super) fn rewrite(&mut self, entries: &[Entry]) -> Result<(), Error> {
        let mut bytes = HEAD.to_vec();
        for entry in entries {
            bytes.extend_from_slice(&frame(entry));
        }
        let failed = |error| failed(&self.path, error);
        let draft = draft(&self.path, &bytes).map_err(failed)?;
        self.is_broken = true;
        self.file = replace(&self.path, &draft).map_err(failed)?;
        self.is_broken = false;
        self.bytes = bytes.len() as u64;
        Ok(())
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }
}

/// Puts the bytes beside the file.
fn draft(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let draft = beside(path, ".draft");
    let mut file = private_files::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(draft)
}

fn replace(path: &Path, draft: &Path) -> io::Result<File> {
    fs::rename(draft, path)?;
    let directory = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    File::options().append(true).open(path)
}

/// A file whose name is the path's with more behind it, so that no two queues share one.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

fn lock(path: &Path) -> Result<File, Error> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let file = private_files::open(&mut options, path);
    let file = file.map_err(|error| failed(path, error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let message = format!(
                "another queue has {}: each needs a path of its own",
                path.display()
            );
            Err(Error::new(ErrorKind::Unavailable, message))
        }
        Err(error) => Err(failed(path, error.into())),
    }
}

fn frame(entry: &Entry) -> Vec<u8> {
    let body = entry.encode_to_vec();
    let length = u32::try_from(body.len()).expect("a write is bounded far below 4 GiB");
    let length = length.to_le_bytes();
    let mut frame = length.to_vec();
    frame.extend_from_slice(&crc32c::crc32c(&length).to_le_bytes());
    frame.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    frame.extend_from_slice(&body);
    frame
}

/// The entries, and how many bytes they take. An entry that is cut off, or whose checksum is wrong, ends the journal if it is the
/// last; before others it is damage, and nothing is guessed.
fn read(path: &Path, found: &[u8]) -> Result<(Vec<Entry>, usize), Error> {
    let damaged = |what: &str| {
        let message = format!(
            "{} {what}: move it away, and find out what of it was lost",
            path.display()
        );
        Error::new(ErrorKind::Codec, message)
    };
    if found.len() < HEAD.len() && HEAD.starts_with(found) {
        return Ok((Vec::new(), 0));
    }
    if !found.starts_with(HEAD) {
        return Err(damaged("is no write queue"));
    }
    let (mut entries, mut at) = (Vec::new(), HEAD.len());
    while let Some(head) = found.get(at..at + FRAME_BYTES) {
        let word = |from: usize| {
            let bytes = head[from..from + 4].try_into();
            u32::from_le_bytes(bytes.expect("a frame has twelve bytes"))
        };
        // A length that is wrong would hide all that follows it.
        if crc32c::crc32c(&head[..4]) != word(4) {
            return Err(damaged("is damaged"));
        }
        let length = usize::try_from(word(0)).unwrap_or(usize::MAX);
        let end = (at + FRAME_BYTES).saturating_add(length);
        let Some(body) = found.get(at + FRAME_BYTES..end) else {
            break;
        };
        if crc32c::crc32c(body) != word(8) {
            if end == found.len() {
                break;
            }
            return Err(damaged("is damaged"));
        }
        entries.push(Entry::decode(body).map_err(|error| {
            damaged("holds what this version does not know").with_source(error)
        })?);
        at = end;
    }
    Ok((entries, at))
}

fn failed(path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{}: {error}", path.display())).with_source(error)
}
