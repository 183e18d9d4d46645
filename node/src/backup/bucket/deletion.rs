//! The deletion of one backup in a bucket.

use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path as Key;
use tokio::time::timeout;

use super::{BACKUPS_NAME, Bucket, FILES_NAME, log::LogObjects};
use crate::{
    backup::{
        BackupError,
        delete::{Deleted, Plan, Run, Stored, plan},
        directory::file_of,
        store_error::StoreProblem,
    },
    stamp,
};

impl Bucket {
    /// Deletes a backup: its manifest, and behind it the files and archived segments that no other
    /// backup needs. A dry run only says what would go; otherwise the work must have begun.
    ///
    /// # Errors
    /// If there is no such backup, any manifest cannot be used, or the store fails. A deletion that
    /// was cut short behind the manifest leaves files, and a later one removes them. So does one
    /// that is stopped.
    pub(in crate::backup) async fn delete(
        &self,
        id: &str,
        run: Run,
        unfinished_min: Duration,
    ) -> Result<Deleted, BackupError> {
        let limit = self.bounds.deletion;
        let work = async {
            let now_s = i64::try_from(stamp::wall_ms() / 1_000).unwrap_or(i64::MAX);
            let age = (now_s, unfinished_min);
            // What is only read may be cut off.
            let read = self.stop.run_until_cancelled(async {
                let (listed, stored) = (self.list().await?, self.stored().await?);
                let archive = LogObjects(self).archive().await?;
                Ok::<_, BackupError>((listed, stored, archive))
            });
            let (listed, stored, archive) = read
                .await
                .ok_or_else(|| BackupError::NotBegun(self.url.clone()))??;
            let plan = plan(&self.url, listed, (stored, &archive), id, age)?;
            if run == Run::Real {
                self.carry_out(id, &plan).await?;
            }
            Ok::<_, BackupError>(plan.deleted)
        };
        // Some time behind it others no longer respect the mark.
        match timeout(limit, work).await {
            Ok(done) => done,
            Err(_) => Err(self.error("delete from", StoreProblem::Slow(limit.as_secs()))),
        }
    }

    async fn carry_out(&self, id: &str, plan: &Plan) -> Result<(), BackupError> {
        if self.stop.is_cancelled() {
            return Err(BackupError::NotBegun(self.url.clone()));
        }
        let manifest = self.key(&format!("{BACKUPS_NAME}/{id}"))?;
        self.remove(&manifest).await?;
        let mut keys = Vec::with_capacity(plan.files.len());
        for file in &plan.files {
            let name = format!("{FILES_NAME}/{}/{}", file.node, file.name);
            keys.push(Ok(self.key(&name)?));
        }
        for name in &plan.segments {
            keys.push(Ok(self.key(name)?));
        }
        let all = keys.len();
        let keys = stream::iter(keys).take_until(self.stop.clone().cancelled_owned());
        let removed = self.store.delete_stream(keys.boxed());
        answered(self, removed, all).await
    }

    /// All files of all nodes that are there whole.
    async fn stored(&self) -> Result<Vec<Stored>, BackupError> {
        let found = self.objects(FILES_NAME).await?.into_iter();
        let stored = found.filter_map(|found| {
            let (node, name) = found.name.split_once('/')?;
            let is_whole = file_of(name)?.size_bytes == found.size_bytes;
            is_whole.then(|| Stored {
                node: node.to_owned(),
                name: name.to_owned(),
                size_bytes: found.size_bytes,
                written_s: found.written_s,
            })
        });
        Ok(stored.collect())
    }
}

/// Waits for an answer to each request that was sent: the mark may go then. Fewer than `all` are
/// sent if the command is asked to stop meanwhile.
pub(super) async fn answered(
    bucket: &Bucket,
    mut removed: impl Stream<Item = object_store::Result<Key>> + Unpin,
    all: usize,
) -> Result<(), BackupError> {
    let mut gone = 0_usize;
    loop {
        match bucket.timed(removed.try_next()).await {
            Ok(None) if gone < all && bucket.stop.is_cancelled() => {
                return Err(BackupError::Stopped(bucket.url.clone()));
            }
            Ok(None) => return Ok(()),
            Ok(Some(_)) => gone += 1,
            Err(failure) if failure.is_absent() => gone += 1,
            Err(failure) => return Err(bucket.error("delete from", failure.problem())),
        }
    }
}
