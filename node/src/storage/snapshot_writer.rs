//! Receiving a snapshot: nothing of it counts until every byte is there, checked and durable.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use helve_proto::peer::v1::{SnapshotChunk, SnapshotFile, SnapshotManifest};

use super::{
    checkpoint::{self, ENGINE, FORMAT, MANIFEST_NAME, SnapshotDir},
    error::StorageError,
};
use crate::limits::{SNAPSHOT_FILES_MAX, SNAPSHOT_NAME_BYTES_MAX};

/// A snapshot that is being received. Dropping it removes what has come so far.
#[derive(Debug)]
pub struct SnapshotWriter {
    snapshot: SnapshotDir,
    path: PathBuf,
    /// The file that is being written, an index into the manifest.
    file: usize,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size_bytes: u64,
    crc32c: u32,
}

impl SnapshotWriter {
    pub(super) fn create(path: &Path, manifest: SnapshotManifest) -> Result<Self, StorageError> {
        check(&manifest)?;
        fs::create_dir(path).map_err(StorageError::io("create", path))?;
        let snapshot = SnapshotDir::unfinished(manifest, path.to_owned());
        Ok(Self {
            snapshot,
            path: path.to_owned(),
            file: 0,
            open: None,
        })
    }

    /// Takes the next piece. Pieces come in the order of the manifest's files; a file of no bytes has none. Blocks.
    ///
    /// # Errors
    /// If the piece is out of order, or a file is not what the manifest says, or the disk fails.
    /// Start over then.
    pub fn write(&mut self, chunk: &SnapshotChunk) -> Result<(), StorageError> {
        let file = chunk.file as usize;
        if file < self.file || file >= self.snapshot.manifest().files.len() {
            let refused = format!(
                "a piece of file {file} came while file {} was due",
                self.file
            );
            return Err(StorageError::Snapshot(refused));
        }
        while self.file < file {
            self.finish_file()?;
        }
        let mut open = self.take_open()?;
        open.size_bytes += chunk.data.len() as u64;
        if open.size_bytes > self.described().size_bytes {
            return Err(self.differs("it is longer"));
        }
        open.crc32c = crc32c::crc32c_append(open.crc32c, &chunk.data);
        open.file
            .write_all(&chunk.data)
            // Piece by piece: a whole file at its end would hold up every sync of a log on the same disk.
            .and_then(|()| open.file.sync_data())
            .map_err(StorageError::io("write", &self.file_path()))?;
        self.open = Some(open);
        Ok(())
    }

    /// Checks that all has come, and makes it durable. It can be installed then. Blocks.
    ///
    /// # Errors
    /// If a file is not what the manifest says, or the disk fails. Start over then.
    pub fn finish(mut self) -> Result<SnapshotDir, StorageError> {
        while self.file < self.snapshot.manifest().files.len() {
            self.finish_file()?;
        }
        checkpoint::write_manifest(&self.path, self.snapshot.manifest())?;
        Ok(self.snapshot)
    }

    fn finish_file(&mut self) -> Result<(), StorageError> {
        let open = self.take_open()?;
        let described = self.described();
        if open.size_bytes != described.size_bytes {
            return Err(self.differs("it is shorter"));
        }
        if open.crc32c != described.crc32c {
            return Err(self.differs("its checksum is another"));
        }
        open.file
            .sync_all()
            .map_err(StorageError::io("sync", &self.file_path()))?;
        self.file += 1;
        Ok(())
    }

    fn take_open(&mut self) -> Result<Open, StorageError> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        let path = self.file_path();
        let file = File::create_new(&path).map_err(StorageError::io("create", &path))?;
        Ok(Open {
            file,
            size_bytes: 0,
            crc32c: 0,
        })
    }

    /// The manifest's word on the file that is due.
    fn described(&self) -> &SnapshotFile {
        &self.snapshot.manifest().files[self.file]
    }

    fn file_path(&self) -> PathBuf {
        self.path.join(&self.described().name)
    }

    fn differs(&self, how: &str) -> StorageError {
        let name = &self.described().name;
        StorageError::Snapshot(format!(
            "file `{name}` is not what the manifest says: {how}"
        ))
    }
}

/// Refuses what this node cannot take over, and names that would lead out of the directory.
///
/// # Errors
/// See [`StorageError`].
pub(crate) fn check(manifest: &SnapshotManifest) -> Result<(), StorageError> {
    if manifest.format > FORMAT {
        let (found, known) = (manifest.format, FORMAT);
        return Err(StorageError::NewerFormat {
            what: "the snapshot",
            found,
            known,
        });
    }
    let refuse = |why: String| Err(StorageError::Snapshot(why));
    if manifest.engine != ENGINE {
        return refuse(format!(
            "it was written by `{}`, and this node reads `{ENGINE}`",
            manifest.engine
        ));
    }
    if manifest.files.len() > SNAPSHOT_FILES_MAX {
        return refuse(format!("it has more than {SNAPSHOT_FILES_MAX} files"));
    }
    let mut names = BTreeSet::from([MANIFEST_NAME]);
    for SnapshotFile { name, .. } in &manifest.files {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = name.bytes().all(plain) && name.bytes().any(|byte| byte != b'.');
        if !is_name || name.len() > SNAPSHOT_NAME_BYTES_MAX || !names.insert(name) {
            return refuse(format!(
                "`{}` is not the name of a file in it",
                name.escape_debug()
            ));
        }
    }
    Ok(())
}
