//! Segments where backups are kept: read, added behind each other, and checked.

use std::path::Path;

use helve_proto::peer::v1::LogId;
use helve_seal::Keyring;

use super::{
    Backup, BackupError,
    archive::Tip,
    directory::Listed,
    place::Place,
    segment::{Closed, Segment},
    segment_path::LOG_NAME,
};

impl Place {
    /// A segment, checked for itself.
    ///
    /// # Errors
    /// If it is missing, damaged or of a newer format, or the place cannot be read.
    pub async fn segment(&self, name: &str) -> Result<Segment, BackupError> {
        let path = self.path().join(name);
        let content = self.read_log(name).await?;
        let content = content.ok_or_else(|| BackupError::damaged(&path, "it is missing"))?;
        Segment::read(&content, &path)
    }

    /// Where the archive of a cluster's log goes on; `None` without a backup of it.
    ///
    /// # Errors
    /// If a manifest of it, or the last segment, cannot be used, or the place cannot be read.
    pub async fn tip(&self, cluster_id: &str) -> Result<Option<Tip>, BackupError> {
        let listed = match self.list().await {
            Err(BackupError::Nothing(_)) => return Ok(None),
            listed => listed?,
        };
        let mut newest: Option<Backup> = None;
        for Listed { backup, .. } in listed {
            let backup = backup?;
            let is_of_it = backup.manifest().cluster_id == cluster_id;
            let revision = backup.manifest().revision;
            if is_of_it
                && newest
                    .as_ref()
                    .is_none_or(|it| it.manifest().revision < revision)
            {
                newest = Some(backup);
            }
        }
        let Some(newest) = newest else {
            return Ok(None);
        };
        if let Some(run) = self.archive().await?.newest(cluster_id) {
            // No backup that is left reaches it.
            if run.begins_after() > newest.manifest().revision {
                return Ok(None);
            }
            let segment = self.segment(&run.last_name()).await?;
            if segment.head().cluster_id == cluster_id {
                return Ok(Some(Tip {
                    run: run.id().to_owned(),
                    last: segment.last(),
                    hash: segment.hash().clone(),
                    is_proven: newest.has_proof(),
                }));
            }
        }
        Ok(Some(Tip::behind(&newest)))
    }

    /// Keeps a segment behind the tip, durably, and moves the tip behind it.
    ///
    /// # Errors
    /// If another process has kept one there, or the place cannot be written. The tip is as before
    /// then.
    pub async fn keep(&self, tip: &mut Tip, closed: Closed) -> Result<(), BackupError> {
        let Closed {
            head,
            content,
            hash,
        } = closed;
        self.put_log(&tip.next_name(), content).await?;
        tip.last = LogId {
            term: head.last_term,
            index: head.last_index,
        };
        tip.hash = hash;
        Ok(())
    }

    /// Whether a backup is left that the run of this tip can be restored behind. It takes one
    /// listing, and reads no manifest.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn has_backup_for(&self, tip: &Tip) -> Result<bool, BackupError> {
        Ok(tip.is_reached_by(&self.ids().await?))
    }

    /// Reads every segment, and says which are not what was written, or do not follow each other.
    /// With keys, it checks that a node which held one of them sent the entries. `read` hears how
    /// many bytes of each were read.
    ///
    /// # Errors
    /// If a store fails: then segments are not known to be damaged.
    pub async fn verify_log(
        &self,
        keys: Option<&Keyring>,
        mut read: impl FnMut(u64),
    ) -> Result<Vec<BackupError>, BackupError> {
        let mut problems = Vec::new();
        let kept = self.ids().await?;
        for run in self.archive().await?.runs() {
            let begins = run.begins_after().saturating_add(1);
            if run.first() != begins && kept.iter().any(|id| id == run.id()) {
                let why = format!(
                    "it begins with entry {}, and its backup ends with {}",
                    run.first(),
                    run.begins_after()
                );
                let path = self.path().join(LOG_NAME).join(run.id());
                problems.push(BackupError::damaged(path, why));
            }
            let mut before: Option<Segment> = None;
            for first in run.firsts() {
                let name = run.name(first);
                let segment = match self.segment(&name).await {
                    Err(error @ BackupError::Store(_)) => return Err(error),
                    Err(error) => {
                        problems.push(error);
                        before = None;
                        continue;
                    }
                    Ok(segment) => segment,
                };
                read(segment.bytes());
                let path = self.path().join(&name);
                let checked = check(&segment, (first, before.as_ref()), &path);
                problems.extend(checked.err());
                let proven = keys.map_or(Ok(()), |keys| segment.check_proof(keys, 0, &path));
                problems.extend(proven.err());
                before = Some(segment);
            }
        }
        Ok(problems)
    }
}

/// Checks that a segment has the entries that its name says, and follows the one before it.
fn check(
    segment: &Segment,
    (first, before): (u64, Option<&Segment>),
    path: &Path,
) -> Result<(), BackupError> {
    if segment.head().first_index != first {
        let why = format!("it begins with entry {}", segment.head().first_index);
        return Err(BackupError::damaged(path, why));
    }
    before.map_or(Ok(()), |before| segment.check_follows(before, path))
}
