//! The archived log in a bucket.

use std::time::Duration;

use bytes::Bytes;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions};
use tokio::time::sleep;

use super::{BACKUPS_NAME, Bucket};
use crate::{
    backup::{BackupError, archive::Archive, segment_path::LOG_NAME},
    limits::{BUCKET_RETRIES_MAX, SEGMENT_FILE_BYTES_MAX},
};

/// Before a segment is put again of which no answer came. The client of stores repeats no write that
/// has a condition, since in general it cannot know whether the first one was carried out.
const PAUSE: Duration = Duration::from_millis(500);

/// The archived log of a bucket.
pub(in crate::backup) struct LogObjects<'a>(pub(in crate::backup) &'a Bucket);

impl LogObjects<'_> {
    /// All segments.
    pub(in crate::backup) async fn archive(&self) -> Result<Archive, BackupError> {
        let found = self.0.objects(LOG_NAME).await?.into_iter();
        Ok(Archive::of(found.map(|it| (it.name, it.size_bytes))))
    }

    /// The ids of all backups, by the names of their manifests, which are not read.
    pub(in crate::backup) async fn ids(&self) -> Result<Vec<String>, BackupError> {
        let found = self.0.objects(BACKUPS_NAME).await?.into_iter();
        Ok(found.map(|it| it.name).collect())
    }

    /// What is in a segment; `None` if it is not there.
    pub(in crate::backup) async fn read(&self, name: &str) -> Result<Option<Bytes>, BackupError> {
        let key = self.0.key(name)?;
        let object = match self.0.timed(self.0.store.get(&key)).await {
            Err(failure) if failure.is_absent() => return Ok(None),
            got => got.map_err(|failure| self.0.error("read", failure.problem()))?,
        };
        if object.meta.size > SEGMENT_FILE_BYTES_MAX {
            let path = self.0.url.join(name);
            return Err(BackupError::damaged(path, "it is too large for a segment"));
        }
        let content = self.0.timed(object.bytes()).await;
        let content = content.map_err(|failure| self.0.error("read", failure.problem()))?;
        Ok(Some(content))
    }

    /// Keeps a segment, unless there is another one of its name.
    pub(in crate::backup) async fn put(
        &self,
        name: &str,
        content: Bytes,
    ) -> Result<(), BackupError> {
        let key = self.0.key(name)?;
        let mut attempts = 0;
        loop {
            let options = PutOptions {
                mode: PutMode::Create,
                ..PutOptions::default()
            };
            let put = self.0.store.put_opts(&key, content.clone().into(), options);
            let Err(failure) = self.0.timed(put).await else {
                return Ok(());
            };
            let (is_taken, is_cut) = (failure.is_taken(), failure.is_cut());
            let failed = self.0.error("write to", failure.problem());
            // One that was written although no answer came meets itself.
            match self.read(name).await? {
                Some(found) if found == content => return Ok(()),
                Some(_) if is_taken => return Err(BackupError::Followed(self.0.url.clone())),
                None if is_cut && attempts < BUCKET_RETRIES_MAX => attempts += 1,
                _ => return Err(failed),
            }
            sleep(PAUSE).await;
        }
    }
}
