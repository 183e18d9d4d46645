//! A backup that arrives and goes on to a bucket, part by part: nothing of it counts until every
//! file is there.

use std::{collections::BTreeSet, mem};

use helve_proto::v1::{BackupChunk, BackupManifest};
use object_store::{MultipartUpload, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions};
use prost::Message as _;

use super::{BACKUPS_NAME, Bucket, below, failure::Failure};
use crate::{
    backup::{Backup, BackupError, BackupFile, directory::stored_name, receiver::Received},
    limits::BUCKET_PARTS_MAX,
    storage::durable_file,
};

/// Writes a backup to its bucket, as it arrives.
pub(in crate::backup) struct Upload<'a> {
    bucket: &'a Bucket,
    backup: Backup,
    /// The node's files that were there before.
    held: BTreeSet<String>,
    /// The file that is due, an index into the backup's files.
    file: usize,
    open: Option<Open>,
    sent_bytes: u64,
    kept_bytes: u64,
    is_settled: bool,
}

/// A file that has begun to arrive.
struct Open {
    /// What was not sent on yet: less than a part.
    unsent: Vec<u8>,
    part_bytes: usize,
    size_bytes: u64,
    crc32c: u32,
    /// Of a file that is larger than a part.
    parts: Option<Box<dyn MultipartUpload>>,
}

impl<'a> Upload<'a> {
    /// Begins to receive the backup that a node describes so.
    ///
    /// # Errors
    /// If this version cannot read it, or the store fails.
    pub(in crate::backup) async fn begin(
        bucket: &'a Bucket,
        manifest: BackupManifest,
    ) -> Result<Self, BackupError> {
        let backup = Backup::read(manifest)?;
        let held = bucket.names(&backup.manifest().node_uuid).await?;
        Ok(Self {
            bucket,
            backup,
            held,
            file: 0,
            open: None,
            sent_bytes: 0,
            kept_bytes: 0,
            is_settled: false,
        })
    }

    /// Bytes that have arrived.
    pub(in crate::backup) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// If it is out of order, a file is not what the manifest says, or the store fails.
    pub(in crate::backup) async fn write(
        &mut self,
        chunk: &BackupChunk,
    ) -> Result<(), BackupError> {
        let file = chunk.file as usize;
        if file < self.file || file >= self.backup.files().len() {
            let due = self.file;
            let why = format!("a piece of file {file} came while file {due} was due");
            return Err(BackupError::Stream(why));
        }
        while self.file < file {
            self.end_file().await?;
        }
        if self.open.is_none() {
            self.open = Some(self.open_due().await?);
        }
        let due_bytes = self.due()?.size_bytes;
        let Some(open) = &mut self.open else {
            return Err(self.differs("is not open"));
        };
        open.size_bytes += chunk.data.len() as u64;
        open.crc32c = crc32c::crc32c_append(open.crc32c, &chunk.data);
        if open.size_bytes > due_bytes {
            return Err(self.differs("is longer"));
        }
        open.unsent.extend_from_slice(&chunk.data);
        while let Some(parts) = &mut open.parts
            && open.unsent.len() >= open.part_bytes
        {
            let rest = open.unsent.split_off(open.part_bytes);
            let part = mem::replace(&mut open.unsent, rest);
            let put = self.bucket.timed(parts.put_part(part.into())).await;
            put.map_err(|failure| self.bucket.error("write to", failure.problem()))?;
        }
        self.sent_bytes += chunk.data.len() as u64;
        Ok(())
    }

    /// Completes the files, and checks that all is there, that of earlier backups too. Where it is
    /// cut off, what has arrived of a file can be given up.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub(in crate::backup) async fn settle(&mut self) -> Result<(), BackupError> {
        while self.file < self.backup.files().len() {
            self.end_file().await?;
        }
        self.bucket.check_all_there(&self.backup).await?;
        self.is_settled = true;
        Ok(())
    }

    /// Settles it unless it is, and makes it a backup. If one of this id is there already, with the
    /// same rows, that is the backup.
    ///
    /// # Errors
    /// If a file is not what the manifest says, one is missing, a backup of this id has other rows,
    /// or the store fails. Then there is no backup; files that are whole stay for the next one.
    pub(in crate::backup) async fn finish(&mut self) -> Result<Received, BackupError> {
        if !self.is_settled {
            self.settle().await?;
        }
        self.bucket.check_mark()?;
        let backup = self.publish().await?;
        Ok(Received {
            backup,
            sent_bytes: self.sent_bytes,
            kept_bytes: self.kept_bytes,
        })
    }

    /// Gives up what has arrived of a file in parts, which the store would keep otherwise.
    ///
    /// # Errors
    /// If the store fails. Then a rule of the bucket has to remove them.
    pub(in crate::backup) async fn abandon(&mut self) -> Result<(), BackupError> {
        let open = self.open.take();
        let Some(mut parts) = open.and_then(|open| open.parts) else {
            return Ok(());
        };
        let aborted = self.bucket.timed(parts.abort()).await;
        aborted.map_err(|failure| self.bucket.error("delete from", failure.problem()))
    }

    /// Writes a manifest, unless there is one of this id: from then on there is a backup.
    async fn publish(&self) -> Result<Backup, BackupError> {
        let (bucket, backup) = (self.bucket, &self.backup);
        let id = backup.id();
        let key = bucket.key(&format!("{BACKUPS_NAME}/{id}"))?;
        let sealed = durable_file::seal(&backup.manifest().encode_to_vec());
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        let put = bucket.store.put_opts(&key, sealed.into(), options);
        let Err(failure) = bucket.timed(put).await else {
            return Ok(backup.clone());
        };
        let is_taken = failure.is_taken();
        let failed = bucket.error("write to", failure.problem());
        // One that was written although no answer came meets itself.
        let found = match bucket.read(&id).await {
            Ok(found) => found,
            // Two puts at once: the store carried out neither.
            Err(BackupError::NoSuch { .. }) => return Err(failed),
            Err(error) if is_taken => return Err(error),
            Err(_) => return Err(failed),
        };
        let rows = |backup: &Backup| {
            let manifest = backup.manifest();
            (manifest.cluster_id.clone(), manifest.digest.clone())
        };
        if rows(&found) != rows(backup) {
            let path = bucket.url.clone();
            return Err(BackupError::Taken { path, id });
        }
        bucket.check_all_there(&found).await?;
        Ok(found)
    }

    async fn open_due(&self) -> Result<Open, BackupError> {
        let due = self.due()?;
        let least = self.bucket.bounds.part_bytes;
        let needed = usize::try_from(due.size_bytes.div_ceil(BUCKET_PARTS_MAX));
        let part_bytes = least.max(needed.unwrap_or(usize::MAX));
        let mut parts = None;
        if due.size_bytes > part_bytes as u64 {
            let key = self.bucket.key(&below(&self.backup, due))?;
            let begun = self.bucket.store.put_multipart(&key);
            let begun = self.bucket.timed(begun).await;
            parts =
                Some(begun.map_err(|failure| self.bucket.error("write to", failure.problem()))?);
        }
        Ok(Open {
            unsent: Vec::new(),
            part_bytes,
            size_bytes: 0,
            crc32c: 0,
            parts,
        })
    }

    /// Ends the file that is due: it has arrived, or was there before.
    async fn end_file(&mut self) -> Result<(), BackupError> {
        let due = self.due()?.clone();
        if self.open.is_none() && due.size_bytes > 0 {
            if !self.held.contains(&stored_name(&due)) {
                return Err(self.differs("was not sent, and is not there"));
            }
            self.kept_bytes += due.size_bytes;
            self.file += 1;
            return Ok(());
        }
        if self.open.is_none() {
            self.open = Some(self.open_due().await?);
        }
        let Some(open) = &mut self.open else {
            return Err(self.differs("is not open"));
        };
        if open.size_bytes != due.size_bytes {
            return Err(self.differs("is shorter"));
        }
        if open.crc32c != due.crc32c {
            return Err(self.differs("has another checksum"));
        }
        let bucket = self.bucket;
        let failed = |failure: Failure| bucket.error("write to", failure.problem());
        let unsent = mem::take(&mut open.unsent);
        if let Some(parts) = &mut open.parts {
            if !unsent.is_empty() {
                let put = bucket.timed(parts.put_part(unsent.into())).await;
                put.map_err(failed)?;
            }
            bucket.timed(parts.complete()).await.map_err(failed)?;
        } else {
            let key = bucket.key(&below(&self.backup, &due))?;
            let put = bucket.timed(bucket.store.put(&key, unsent.into())).await;
            put.map_err(failed)?;
        }
        self.open = None;
        self.file += 1;
        Ok(())
    }

    fn due(&self) -> Result<&BackupFile, BackupError> {
        let due = self.backup.files().get(self.file);
        due.ok_or_else(|| BackupError::Stream("it has more files than it said".to_owned()))
    }

    fn differs(&self, how: &str) -> BackupError {
        let due = self.backup.files().get(self.file);
        let name = due.map_or("", |due| due.name.as_str());
        BackupError::Stream(format!("file `{name}` {how}"))
    }
}
