//! A backup that is being received: nothing of it counts until every file is there, checked and
//! durable.

use std::{
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
};

use helve_proto::v1::{BackupChunk, BackupManifest};

use super::{
    Backup, BackupError, BackupFile,
    directory::{BackupDir, check_file, create_dir},
};
use crate::storage::durable_file;

/// A file that did not arrive whole yet.
const INCOMING_NAME: &str = "incoming.tmp";

/// Bytes of a file after which what was written goes to the disk: a whole file at its end would
/// take so long that the node gives up.
const SYNC_BYTES: u64 = 8 << 20;

/// Writes a backup to its directory, as it arrives.
#[derive(Debug)]
pub struct Receiver<'a> {
    directory: &'a BackupDir,
    backup: Backup,
    /// The file that is due, an index into the backup's files.
    file: usize,
    open: Option<Open>,
    kept: Vec<usize>,
    sent_bytes: u64,
}

#[derive(Debug)]
struct Open {
    content: File,
    size_bytes: u64,
    crc32c: u32,
    unsynced_bytes: u64,
}

/// What became of a backup.
#[derive(Debug)]
pub struct Received {
    /// The backup.
    pub backup: Backup,
    /// Bytes that the node sent.
    pub sent_bytes: u64,
    /// Bytes in files that earlier backups had brought.
    pub kept_bytes: u64,
}

impl<'a> Receiver<'a> {
    /// Begins to receive the backup that a node describes so.
    ///
    /// # Errors
    /// If this version cannot read it, or the directory cannot be written.
    pub fn begin(directory: &'a BackupDir, manifest: BackupManifest) -> Result<Self, BackupError> {
        let backup = Backup::read(manifest)?;
        create_dir(&directory.files_path(&backup))?;
        Ok(Self {
            directory,
            backup,
            file: 0,
            open: None,
            kept: Vec::new(),
            sent_bytes: 0,
        })
    }

    /// The backup that arrives.
    #[must_use]
    pub fn backup(&self) -> &Backup {
        &self.backup
    }

    /// Bytes that have arrived.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Takes the next piece. Blocks.
    ///
    /// # Errors
    /// If it is out of order, a file is not what the manifest says, or the disk fails.
    pub fn write(&mut self, chunk: &BackupChunk) -> Result<(), BackupError> {
        let file = chunk.file as usize;
        if file < self.file || file >= self.backup.files().len() {
            let due = self.file;
            let why = format!("a piece of file {file} came while file {due} was due");
            return Err(BackupError::Stream(why));
        }
        while self.file < file {
            self.end_file()?;
        }
        let incoming = self.incoming_path();
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open {
                content: File::create(&incoming).map_err(BackupError::io("create", &incoming))?,
                size_bytes: 0,
                crc32c: 0,
                unsynced_bytes: 0,
            },
        };
        let bytes = chunk.data.len() as u64;
        open.size_bytes += bytes;
        if open.size_bytes > self.due().size_bytes {
            return Err(self.differs("is longer"));
        }
        open.crc32c = crc32c::crc32c_append(open.crc32c, &chunk.data);
        let mut written = open.content.write_all(&chunk.data);
        open.unsynced_bytes += bytes;
        if open.unsynced_bytes >= SYNC_BYTES {
            open.unsynced_bytes = 0;
            written = written.and_then(|()| open.content.sync_data());
        }
        written.map_err(BackupError::io("write", &incoming))?;
        self.sent_bytes += bytes;
        self.open = Some(open);
        Ok(())
    }

    /// Checks that all is there, that of earlier backups too, and makes it a backup, durably.
    /// Blocks.
    ///
    /// # Errors
    /// If a file is not what the manifest says, or the disk fails. Then there is no backup; files
    /// that are whole stay for the next one.
    pub fn finish(mut self) -> Result<Received, BackupError> {
        while self.file < self.backup.files().len() {
            self.end_file()?;
        }
        let mut damaged = Vec::new();
        let mut kept_bytes = 0;
        for &kept in &self.kept {
            let file = &self.backup.files()[kept];
            let path = self.directory.file_path(&self.backup, file);
            kept_bytes += file.size_bytes;
            match check_file(&path, file) {
                Ok(()) => {}
                Err(BackupError::Damaged { .. }) => {
                    fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
                    damaged.push(path);
                }
                Err(error) => return Err(error),
            }
        }
        if !damaged.is_empty() {
            return Err(BackupError::KeptDamaged(damaged));
        }
        let files = self.directory.files_path(&self.backup);
        durable_file::sync_dir(&files).map_err(BackupError::io("sync", &files))?;
        self.directory.publish(&self.backup)?;
        Ok(Received {
            backup: self.backup,
            sent_bytes: self.sent_bytes,
            kept_bytes,
        })
    }

    /// Ends the file that is due: it has arrived, or was there before.
    fn end_file(&mut self) -> Result<(), BackupError> {
        let due = self.due().clone();
        let path = self.directory.file_path(&self.backup, &due);
        let Some(open) = self.open.take() else {
            if due.size_bytes == 0 {
                File::create(&path).map_err(BackupError::io("create", &path))?;
            } else if path.exists() {
                self.kept.push(self.file);
            } else {
                return Err(self.differs("was not sent, and is not here"));
            }
            self.file += 1;
            return Ok(());
        };
        if open.size_bytes != due.size_bytes {
            return Err(self.differs("is shorter"));
        }
        if open.crc32c != due.crc32c {
            return Err(self.differs("has another checksum"));
        }
        let incoming = self.incoming_path();
        let synced = open.content.sync_all();
        synced
            .and_then(|()| fs::rename(&incoming, &path))
            .map_err(BackupError::io("write", &path))?;
        self.file += 1;
        Ok(())
    }

    fn due(&self) -> &BackupFile {
        &self.backup.files()[self.file]
    }

    fn incoming_path(&self) -> PathBuf {
        self.directory.files_path(&self.backup).join(INCOMING_NAME)
    }

    fn differs(&self, how: &str) -> BackupError {
        BackupError::Stream(format!("file `{}` {how}", self.due().name))
    }
}
