//! What authenticates a node's disk: a random key of its data directory, from which tags of rows, of log entries and of snapshots are
//! made. The file `DIR/disk-key` holds it, sealed under a data key by `vault/disk.rs`.
//!
//! ```text
//! tag of a row   = HMAC(row key, length of the row's key | key | value)
//! mark           = HMAC(mark key, term and index of the applied entry | XOR of the tags of all rows that give rights | members)
//! of a snapshot  = HMAC(snapshot key, mark of its rows | its manifest)
//! tag of an entry = HMAC(entry key, group | entry as encoded), its first 16 bytes
//! ```
//! The XOR itself is on no disk. So a person who sees disks cannot look for another set of rows that has the same one.

use std::{fmt, fs, io, path::Path, sync::Arc};

use helve_proto::peer::v1::LogId;
use helve_seal::primitives::{KEY_BYTES, MacKey, derive};

use super::{durable_file, error::StorageError};

/// Bytes of the secret that all tags are derived from.
pub const SECRET_BYTES: usize = KEY_BYTES;

const FILE_NAME: &str = "disk-key";
const PURPOSE: &[u8] = b"helve disk 1";
const ENTRY_TAG_BYTES: usize = 16;
/// How a tag begins behind an entry: as the field 6 of the message, of 16 bytes, which a reader without the key passes over.
const ENTRY_TAG_HEAD: [u8; 2] = [6 << 3 | 2, ENTRY_TAG_BYTES as u8];

/// A tag of a row, or a mark.
pub(super) type Tag = [u8; KEY_BYTES];

/// The keys of a data directory. Never printed.
pub struct DiskKey {
    row: MacKey,
    mark: MacKey,
    snapshot: MacKey,
    entry: MacKey,
}

impl DiskKey {
    /// The keys that this secret leads to.
    #[must_use]
    pub fn new(secret: &[u8; SECRET_BYTES]) -> Arc<Self> {
        let part = |label: &[u8]| MacKey::new(&derive(secret, &[PURPOSE, label]));
        Arc::new(Self {
            row: part(b" row"),
            mark: part(b" mark"),
            snapshot: part(b" snapshot"),
            entry: part(b" entry"),
        })
    }

    pub(super) fn row_tag(&self, key: &[u8], value: &[u8]) -> Tag {
        let length = (key.len() as u64).to_be_bytes();
        self.row.tag(&[&length, key, value])
    }

    /// The mark of rows whose tags' XOR is this, and of the members as they are stored, as of the entry that was applied last.
    pub(super) fn mark(&self, applied: &LogId, tags: &Tag, members: &[u8]) -> Tag {
        let (term, index) = (applied.term.to_be_bytes(), applied.index.to_be_bytes());
        self.mark.tag(&[&term, &index, tags, members])
    }

    /// The mark of a snapshot whose rows have this mark, and whose manifest is stored so.
    pub(super) fn snapshot_mark(&self, rows: &Tag, manifest: &[u8]) -> Tag {
        self.snapshot.tag(&[rows, manifest])
    }

    /// Adds its tag to an encoded log entry.
    pub(super) fn add_entry_tag(&self, group_id: u32, encoded: &mut Vec<u8>) {
        let tag = self.entry_tag(group_id, encoded);
        encoded.extend(ENTRY_TAG_HEAD);
        encoded.extend(tag);
    }

    /// The encoded log entry before its tag; `None` if that is not the entry's.
    pub(super) fn checked_entry<'a>(&self, group_id: u32, stored: &'a [u8]) -> Option<&'a [u8]> {
        let (rest, tag) = stored.split_last_chunk::<ENTRY_TAG_BYTES>()?;
        let (encoded, head) = rest.split_last_chunk::<{ ENTRY_TAG_HEAD.len() }>()?;
        (*head == ENTRY_TAG_HEAD && *tag == self.entry_tag(group_id, encoded)).then_some(encoded)
    }

    fn entry_tag(&self, group_id: u32, encoded: &[u8]) -> [u8; ENTRY_TAG_BYTES] {
        let tag = self.entry.tag(&[&group_id.to_be_bytes(), encoded]);
        *tag.first_chunk().expect("a tag is longer")
    }
}

impl fmt::Debug for DiskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskKey").finish_non_exhaustive()
    }
}

/// What the file of a data directory holds; `None` if there is none.
///
/// # Errors
/// If it is damaged, or cannot be read.
pub fn read_file(directory: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    durable_file::read_sealed(&directory.join(FILE_NAME))
}

/// Writes the file of a data directory, durably.
///
/// # Errors
/// If the disk fails.
pub fn write_file(directory: &Path, content: &[u8]) -> Result<(), StorageError> {
    let path = directory.join(FILE_NAME);
    durable_file::replace_sealed(&path, content).map_err(StorageError::io("write", &path))
}

/// Removes the file of a data directory, durably. Returns whether there was one.
///
/// # Errors
/// If the disk fails.
pub fn remove_file(directory: &Path) -> Result<bool, StorageError> {
    let path = directory.join(FILE_NAME);
    match fs::remove_file(&path) {
        Ok(()) => durable_file::sync_dir(directory)
            .map(|()| true)
            .map_err(StorageError::io("sync", directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StorageError::io("remove", &path)(error)),
    }
}

/// Whether a data directory holds neither a log nor rows: any key fits it.
#[must_use]
pub fn is_fresh(directory: &Path) -> bool {
    !directory.join("raft").exists() && !super::generations::pointer_path(directory).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_fits_its_own_tag_alone() {
        let (key, other) = (DiskKey::new(&[1; 32]), DiskKey::new(&[2; 32]));
        let mut stored = b"an entry".to_vec();
        key.add_entry_tag(1, &mut stored);
        assert_eq!(key.checked_entry(1, &stored), Some(&b"an entry"[..]));
        assert_eq!(key.checked_entry(2, &stored), None, "another group");
        assert_eq!(other.checked_entry(1, &stored), None, "another node");
        assert_eq!(key.checked_entry(1, b"an entry"), None, "no tag");
        assert_eq!(key.checked_entry(1, &[]), None);
        for at in 0..stored.len() {
            let mut changed = stored.clone();
            changed[at] ^= 1;
            assert_eq!(key.checked_entry(1, &changed), None, "byte {at}");
        }
    }

    #[test]
    fn a_mark_is_of_one_set_of_rows_as_of_one_entry() {
        let key = DiskKey::new(&[1; 32]);
        let (tags, id) = (key.row_tag(b"a", b"bc"), LogId { term: 2, index: 7 });
        assert_ne!(tags, key.row_tag(b"ab", b"c"), "a key has a length");
        let mark = key.mark(&id, &tags, b"1, 2, 3");
        assert_ne!(mark, key.mark(&LogId { index: 8, ..id }, &tags, b"1, 2, 3"));
        assert_ne!(mark, key.mark(&LogId { term: 1, ..id }, &tags, b"1, 2, 3"));
        assert_ne!(mark, key.mark(&id, &[0; KEY_BYTES], b"1, 2, 3"));
        assert_ne!(mark, key.mark(&id, &tags, b"1, 2"));
        assert_ne!(mark, DiskKey::new(&[2; 32]).mark(&id, &tags, b"1, 2, 3"));
        assert_ne!(
            key.snapshot_mark(&mark, b"files"),
            key.snapshot_mark(&mark, b"other files")
        );
    }

    #[test]
    fn a_file_is_there_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        assert!(is_fresh(directory.path()));
        assert_eq!(read_file(directory.path()).unwrap(), None);
        write_file(directory.path(), b"sealed").unwrap();
        assert_eq!(read_file(directory.path()).unwrap().unwrap(), b"sealed");
        assert!(remove_file(directory.path()).unwrap());
        assert!(!remove_file(directory.path()).unwrap());
        assert_eq!(read_file(directory.path()).unwrap(), None);
        fs::create_dir(directory.path().join("raft")).unwrap();
        assert!(!is_fresh(directory.path()));
    }
}
