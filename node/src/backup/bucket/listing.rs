//! The backups that are in a bucket.

use std::collections::BTreeSet;

use prost::Message as _;

use super::{BACKUPS_NAME, Bucket};
use crate::backup::{BackupError, directory::Listed, store_error::StoreProblem};

impl Bucket {
    /// All backups, by their ids: one at least. A manifest that is listed, and is not found, is one
    /// that cannot be used, unless it is gone from the next listing too.
    ///
    /// # Errors
    /// If there is none, or the store fails.
    pub(in crate::backup) async fn list(&self) -> Result<Vec<Listed>, BackupError> {
        let mut listed = Vec::new();
        let mut absent = BTreeSet::new();
        let mut bytes = 0_u64;
        for found in self.objects(BACKUPS_NAME).await? {
            let id = found.name;
            match self.read(&id).await {
                Err(error @ BackupError::Store(_)) => return Err(error),
                Err(BackupError::NoSuch { .. }) => {
                    // Not the marker of a folder: its name ends with a slash, which is lost here.
                    if found.size_bytes > 0 {
                        absent.insert(id);
                    }
                }
                Ok(backup) => {
                    bytes += backup.manifest().encoded_len() as u64;
                    let backup = Ok(backup);
                    listed.push(Listed { id, backup });
                }
                unusable => listed.push(Listed {
                    id,
                    backup: unusable,
                }),
            }
            let limit = self.bounds.manifests_bytes;
            if bytes > limit {
                return Err(self.error("list", StoreProblem::TooLarge(limit)));
            }
        }
        if !absent.is_empty() {
            listed.extend(lost(self, &absent).await?);
        }
        if listed.is_empty() {
            return Err(BackupError::Nothing(self.url.clone()));
        }
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(listed)
    }
}

/// Those of the manifests that were not found which are listed still. They were not deleted
/// meanwhile: a store in trouble, or a gateway before it, answers in the same way.
async fn lost(bucket: &Bucket, absent: &BTreeSet<String>) -> Result<Vec<Listed>, BackupError> {
    let found = bucket.objects(BACKUPS_NAME).await?.into_iter();
    let lost = found.filter(|found| absent.contains(&found.name));
    let lost = lost.map(|found| {
        let path = bucket.url.join(BACKUPS_NAME).join(&found.name);
        let why = "it is listed, and the store says that it is missing";
        Listed {
            id: found.name,
            backup: Err(BackupError::damaged(path, why)),
        }
    });
    Ok(lost.collect())
}
