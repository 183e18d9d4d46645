//! A segment: a file of archived entries of the log, which are committed and follow each other.
//!
//! ```text
//! magic (8 bytes) | frame of a LogSegment | frames of a LogPiece each
//! frame: length (4 bytes, big-endian) | CRC32C of the content (4 bytes, big-endian) | content
//! ```
//!
//! Its head says where it begins and ends, so a file that was cut is found, and names the hash of
//! the file before it.

use std::path::Path;

use bytes::Bytes;
use helve_proto::{
    command::v1::{Command, command::Operation},
    peer::v1::{LogEntry, LogId, log_entry::Payload},
    v1::{LogPiece, LogSegment},
};
use helve_seal::Keyring;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{
    BackupError,
    proof::{self, Unproven},
};

/// The format of segments that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"helvelog";

/// Bytes before the content of a frame.
const FRAME_HEAD_BYTES: usize = 8;

/// A segment that was read and checked.
#[derive(Debug, Clone)]
pub struct Segment {
    head: LogSegment,
    pieces: Vec<LogPiece>,
    hash: Bytes,
    bytes: u64,
}

/// What of an entry counts here.
#[derive(Debug)]
pub(crate) struct Archived {
    /// Where it is in the log.
    pub(crate) id: LogId,
    /// The leader's time in its command; 0 without one.
    pub(crate) ms: u64,
    /// The feature level that it takes to apply it.
    pub(crate) feature_level: u32,
}

/// A segment that grows, in memory.
#[derive(Debug)]
pub struct Growing {
    head: LogSegment,
    /// Frames of pieces.
    frames: Vec<u8>,
}

/// A segment that is to be kept.
#[derive(Debug)]
pub struct Closed {
    /// What it says of itself.
    pub head: LogSegment,
    /// All of the file.
    pub content: Bytes,
    /// The hash of that, which the next one names.
    pub hash: Bytes,
}

/// Reads an entry as far as it counts here.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn archived(entry: &Bytes) -> Result<Archived, String> {
    let entry = LogEntry::decode(entry.clone()).map_err(|error| error.to_string())?;
    let id = entry.log_id.ok_or("an entry has no place in the log")?;
    let Some(Payload::Command(command)) = entry.payload else {
        let (ms, feature_level) = (0, 0);
        return Ok(Archived {
            id,
            ms,
            feature_level,
        });
    };
    let command = Command::decode(command)
        .map_err(|error| format!("the command of entry {}: {error}", id.index))?;
    let raised = match &command.operation {
        Some(Operation::RaiseFeatureLevel(raise)) => raise.level,
        _ => 0,
    };
    Ok(Archived {
        id,
        ms: command.proposed_at_ms,
        feature_level: command.feature_level.max(raised),
    })
}

impl Growing {
    /// Begins a segment of a cluster's log behind this entry, and behind the file with this hash.
    #[must_use]
    pub fn begin(cluster_id: &str, after: LogId, before: Bytes) -> Self {
        let head = LogSegment {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster_id: cluster_id.to_owned(),
            first_index: after.index.saturating_add(1),
            first_term: 0,
            last_index: after.index,
            last_term: after.term,
            first_ms: 0,
            last_ms: 0,
            before,
        };
        Self {
            head,
            frames: Vec::new(),
        }
    }

    /// What it says of itself so far.
    #[must_use]
    pub fn head(&self) -> &LogSegment {
        &self.head
    }

    /// Whether it holds no entry yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of it so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.frames.len()
    }

    /// Adds entries that follow.
    ///
    /// # Errors
    /// [`BackupError::LogStream`] if they do not follow. Nothing was added then.
    pub fn add(&mut self, piece: &LogPiece) -> Result<(), BackupError> {
        let mut head = self.head.clone();
        follow(&mut head, piece).map_err(BackupError::LogStream)?;
        if !piece.entries.is_empty() {
            self.head = head;
            frame(&mut self.frames, &piece.encode_to_vec());
        }
        Ok(())
    }

    /// Ends it.
    #[must_use]
    pub fn close(self) -> Closed {
        let mut content = MAGIC.to_vec();
        frame(&mut content, &self.head.encode_to_vec());
        content.extend_from_slice(&self.frames);
        let hash = Bytes::copy_from_slice(&Sha256::digest(&content));
        Closed {
            head: self.head,
            content: content.into(),
            hash,
        }
    }
}

impl Segment {
    /// Reads a file, and checks all that it says.
    ///
    /// # Errors
    /// If a newer version wrote it, or it is not what was written: `path` is its place.
    pub fn read(content: &Bytes, path: &Path) -> Result<Self, BackupError> {
        let damaged = |detail: String| BackupError::damaged(path, detail);
        let (head, pieces) = frames(content).map_err(damaged)?;
        if head.format > FORMAT {
            return Err(BackupError::NewerSegment {
                path: path.to_owned(),
                version: head.version.escape_debug().to_string(),
                found: head.format,
            });
        }
        // The first entry of an archive is behind a backup. A count from 0 would be one behind.
        let Some(after) = head.first_index.checked_sub(1) else {
            let why = "it says that it begins with entry 0, which no archive holds";
            return Err(damaged(why.to_owned()));
        };
        if pieces.iter().any(|piece| piece.entries.is_empty()) {
            return Err(damaged("a piece of it has no entry".to_owned()));
        }
        let mut found = Growing::begin(&head.cluster_id, LogId::default(), head.before.clone());
        found.head.version.clone_from(&head.version);
        found.head.first_index = head.first_index;
        found.head.last_index = after;
        for piece in &pieces {
            follow(&mut found.head, piece).map_err(damaged)?;
        }
        if found.head != head || head.last_index < head.first_index {
            return Err(damaged("it holds other entries than it says".to_owned()));
        }
        let hash = Bytes::copy_from_slice(&Sha256::digest(content));
        Ok(Self {
            head,
            pieces,
            hash,
            bytes: content.len() as u64,
        })
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it says of itself.
    #[must_use]
    pub fn head(&self) -> &LogSegment {
        &self.head
    }

    /// Its hash, which the next one names.
    #[must_use]
    pub fn hash(&self) -> &Bytes {
        &self.hash
    }

    /// Its last entry.
    #[must_use]
    pub fn last(&self) -> LogId {
        LogId {
            term: self.head.last_term,
            index: self.head.last_index,
        }
    }

    /// Its entries, as the node sent them.
    pub(crate) fn pieces(&self) -> &[LogPiece] {
        &self.pieces
    }

    /// Checks that it goes on where another one ends, which is kept at `path`.
    ///
    /// # Errors
    /// If entries are missing between them, or it was written behind another file.
    pub(super) fn check_follows(&self, before: &Self, path: &Path) -> Result<(), BackupError> {
        let (last, first) = (before.head.last_index, self.head.first_index);
        let is_next =
            last.checked_add(1) == Some(first) && before.head.last_term <= self.head.first_term;
        if !is_next || before.head.cluster_id != self.head.cluster_id {
            let why = format!("it begins with entry {first}, and the one before ends with {last}");
            return Err(BackupError::damaged(path, why));
        }
        if self.head.before != before.hash {
            let why = "the segment before it is not the one that it was written behind";
            return Err(BackupError::damaged(path, why));
        }
        Ok(())
    }

    /// Checks that a node which held one of these keys sent each entry behind this one. Those before
    /// it are in a backup, and may be of a time without data keys. The index in each entry decides,
    /// as the head has no proof. The caller has checked that the head names the right cluster.
    ///
    /// # Errors
    /// If a key is missing, there is no proof, or an entry was changed.
    pub(super) fn check_proof(
        &self,
        keys: &Keyring,
        after: u64,
        path: &Path,
    ) -> Result<(), BackupError> {
        for piece in &self.pieces {
            if ends_by(piece, after) {
                continue;
            }
            let missing = proof::key_id(&piece.proof).filter(|id| keys.find(*id).is_none());
            if let Some(missing) = missing {
                return Err(BackupError::KeyMissing {
                    id: path.display().to_string(),
                    missing: missing.to_string(),
                });
            }
            if keys.is_empty() {
                continue;
            }
            let checked = proof::check_piece(&self.head.cluster_id, piece, keys);
            checked.map_err(|unproven| match unproven {
                Unproven::Missing => BackupError::UnprovenSegment(path.to_owned()),
                Unproven::Changed => BackupError::ForgedSegment(path.to_owned()),
            })?;
        }
        Ok(())
    }
}

/// Whether no entry of a piece is behind this one, by what each entry says of itself.
fn ends_by(piece: &LogPiece, last: u64) -> bool {
    piece.entries.iter().all(|entry| {
        let entry = LogEntry::decode(entry.clone()).ok();
        let id = entry.and_then(|entry| entry.log_id);
        id.is_some_and(|id| id.index <= last)
    })
}

/// Takes entries up in the head of their segment.
fn follow(head: &mut LogSegment, piece: &LogPiece) -> Result<(), String> {
    for entry in &piece.entries {
        let Archived { id, ms, .. } = archived(entry)?;
        let last = head.last_index;
        let due = last.checked_add(1);
        let due = due.ok_or_else(|| format!("an entry came behind entry {last}, the last one"))?;
        if id.index != due {
            return Err(format!("entry {} came while entry {due} was due", id.index));
        }
        if id.term < head.last_term {
            let (term, last) = (id.term, head.last_term);
            return Err(format!("entry {due} is of term {term}, behind term {last}"));
        }
        if due == head.first_index {
            head.first_term = id.term;
        }
        head.last_index = due;
        head.last_term = id.term;
        if ms > 0 {
            head.last_ms = ms;
            if head.first_ms == 0 {
                head.first_ms = ms;
            }
        }
    }
    Ok(())
}

fn frame(to: &mut Vec<u8>, content: &[u8]) {
    // A message has at most MESSAGE_BYTES_MAX bytes.
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(&crc32c::crc32c(content).to_be_bytes());
    to.extend_from_slice(content);
}

/// The messages of a file.
fn frames(content: &Bytes) -> Result<(LogSegment, Vec<LogPiece>), String> {
    if content.get(..MAGIC.len()) != Some(&MAGIC[..]) {
        return Err("it is no segment of a log".to_owned());
    }
    let mut rest = content.slice(MAGIC.len()..);
    let mut head = None;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let whole = next_frame(&mut rest).ok_or("it was cut, or a checksum differs")?;
        if head.is_none() {
            let decoded = LogSegment::decode(whole);
            head = Some(decoded.map_err(|error| format!("its head: {error}"))?);
            continue;
        }
        // A newer format may have other frames.
        if head.as_ref().is_some_and(|head| head.format > FORMAT) {
            break;
        }
        pieces.push(LogPiece::decode(whole).map_err(|error| format!("its entries: {error}"))?);
    }
    let head = head.ok_or("it has no head")?;
    Ok((head, pieces))
}

fn next_frame(rest: &mut Bytes) -> Option<Bytes> {
    let length = rest.get(..4)?.try_into().ok().map(u32::from_be_bytes)?;
    let crc32c = rest.get(4..8)?.try_into().ok().map(u32::from_be_bytes)?;
    let end = FRAME_HEAD_BYTES.checked_add(usize::try_from(length).ok()?)?;
    if end > rest.len() {
        return None;
    }
    let content = rest.slice(FRAME_HEAD_BYTES..end);
    *rest = rest.slice(end..);
    (crc32c::crc32c(&content) == crc32c).then_some(content)
}

#[cfg(test)]
pub(super) mod tests;
