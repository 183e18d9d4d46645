//! Segments where backups are kept: read, added behind each other, and checked.

use std::{ffi::OsStr, path::Path};

use helve_proto::peer::v1::LogId;
use helve_seal::Keyring;

use super::{
    Backup, BackupError,
    archive::{LogRun, Tip, cluster_of, cluster_of_run},
    directory::Listed,
    place::Place,
    point::check_begins,
    segment::{Closed, Segment},
    segment_path::{LOG_NAME, first_of},
};

impl Place {
    /// A segment, checked for itself: it holds what its head and its name say.
    ///
    /// # Errors
    /// If it is missing, damaged, under another name or of a newer format, or the place cannot be
    /// read.
    pub async fn segment(&self, name: &str) -> Result<Segment, BackupError> {
        let path = self.path().join(name);
        let content = self.read_log(name).await?;
        let content = content.ok_or_else(|| BackupError::damaged(&path, "it is missing"))?;
        let segment = Segment::read(&content, &path)?;
        check_name(&segment, &path)?;
        Ok(segment)
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

    /// Reads every segment, and says which are not what was written, or do not follow each other or
    /// the backup that their run began behind. With keys, it checks that a node which held one of
    /// them sent the entries. `read` hears how many bytes of each were read.
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
            let backup = begun_behind(self, run, &kept).await?;
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
                let checked = match (&before, &backup) {
                    (Some(before), _) => segment.check_follows(before, &path),
                    (None, Some(backup)) if first == begins => {
                        check_begins(&segment, backup, &path)
                    }
                    (None, _) => Ok(()),
                };
                problems.extend(checked.err());
                let proven = keys.map_or(Ok(()), |keys| segment.check_proof(keys, 0, &path));
                problems.extend(proven.err());
                before = Some(segment);
            }
        }
        Ok(problems)
    }
}

/// The backup that a run began behind; `None` if it is gone, or its manifest cannot be used.
///
/// # Errors
/// If a store fails.
async fn begun_behind(
    place: &Place,
    run: &LogRun,
    kept: &[String],
) -> Result<Option<Backup>, BackupError> {
    if !kept.iter().any(|id| id == run.id()) {
        return Ok(None);
    }
    match place.find(Some(run.id())).await {
        Err(error @ BackupError::Store(_)) => Err(error),
        found => Ok(found.ok()),
    }
}

/// Checks that a segment is of the run, and begins with the entry, that its name says: by names
/// segments are put in order, and chosen.
fn check_name(segment: &Segment, path: &Path) -> Result<(), BackupError> {
    let head = segment.head();
    if first_of(path) != Some(head.first_index) {
        let first = head.first_index;
        let why = format!("it begins with entry {first}, and its name says another one");
        return Err(BackupError::damaged(path, why));
    }
    let run = path.parent().and_then(Path::file_name);
    let run = run.and_then(OsStr::to_str).unwrap_or_default();
    if cluster_of_run(run) != cluster_of(&head.cluster_id) {
        let why = "it is of another cluster";
        return Err(BackupError::damaged(path, why));
    }
    Ok(())
}
