//! Marks: which commands work in a bucket. A backup counts on files that were there when it began, so
//! no other command may delete while it runs.
//!
//! A command puts its own mark first and looks for those of others then. Of two that begin at once
//! each sees the other, or one does: a store lists what was put before.

use std::{path::PathBuf, time::Duration};

use object_store::{ObjectStoreExt as _, PutPayload, path::Path as Key};
use tokio::time::Instant;

use super::{Bounds, Bucket, Found, RUNNING_NAME};
use crate::{
    backup::{BackupError, store_error::StoreProblem},
    stamp,
};

/// What a command does in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backup) enum Work {
    Backup,
    Delete,
}

/// Tells others that a command works here.
#[derive(Debug)]
pub(in crate::backup) struct Mark {
    key: Key,
    begun: Instant,
    /// Where it is, for messages.
    path: PathBuf,
    /// When others no longer respect it, by this machine's clock.
    until_ms: u64,
}

impl Mark {
    /// Where it is, and when others no longer respect it, in milliseconds since the Unix epoch.
    pub(in crate::backup) fn left(&self) -> (PathBuf, u64) {
        (self.path.clone(), self.until_ms)
    }
}

impl Work {
    fn word(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Delete => "delete",
        }
    }

    /// Whose mark it is, by its name. `None` if a newer version has put it for another work.
    fn of(name: &str) -> Option<Self> {
        let works = [Self::Backup, Self::Delete];
        let is_of = |work: &Self| {
            let rest = name.strip_prefix(work.word());
            rest.is_some_and(|rest| rest.starts_with('-'))
        };
        works.into_iter().find(is_of)
    }

    /// Whether both may run at the same time.
    fn may_run_beside(self, other: Self) -> bool {
        self == Self::Backup && other == Self::Backup
    }
}

/// Of an error, and one of what cleans up behind it, the one to tell. A store that cannot be cleaned
/// up, such as for a right that is missing, is to be mended first.
pub(in crate::backup) fn first_to_mend(
    error: BackupError,
    cleaned_up: Result<(), BackupError>,
) -> BackupError {
    match (error, cleaned_up) {
        (error @ BackupError::Store(_), _) | (error, Ok(())) => error,
        (_, Err(left)) => left,
    }
}

impl Bounds {
    /// How long others respect a mark: the longest time if it is not known what its command does.
    fn lasts(&self, work: Option<Work>) -> Duration {
        match work {
            Some(Work::Backup) => self.backup_mark,
            Some(Work::Delete) => self.delete_mark,
            None => self.backup_mark.max(self.delete_mark),
        }
    }
}

impl Bucket {
    /// Begins to work here.
    ///
    /// # Errors
    /// If another command works here that this one cannot work beside, or the store fails.
    pub(in crate::backup) async fn begin(&mut self, work: Work) -> Result<(), BackupError> {
        let name = format!("{}-{}", work.word(), stamp::mint_uuid()?);
        let below = format!("{RUNNING_NAME}/{name}");
        let lasts_ms = self.bounds.lasts(Some(work)).as_millis();
        let lasts_ms = u64::try_from(lasts_ms).unwrap_or(u64::MAX);
        self.mark = Some(Mark {
            key: self.key(&below)?,
            begun: Instant::now(),
            path: self.url.join(&below),
            until_ms: stamp::wall_ms().saturating_add(lasts_ms),
        });
        match self.enter(work, &name).await {
            Ok(()) => Ok(()),
            Err(error) => Err(first_to_mend(error, self.end().await)),
        }
    }

    /// Puts the mark, and looks for others then.
    async fn enter(&self, work: Work, name: &str) -> Result<(), BackupError> {
        let key = self.key(&format!("{RUNNING_NAME}/{name}"))?;
        let put = self.store.put(&key, PutPayload::default());
        let put = self.timed(put).await;
        put.map_err(|failure| self.error("write to", failure.problem()))?;
        self.check_others(work, name).await
    }

    /// Ends the work: others may work here.
    ///
    /// # Errors
    /// If the store fails. Then the mark is left, and others respect it until it is old.
    pub(in crate::backup) async fn end(&mut self) -> Result<(), BackupError> {
        let Some(mark) = self.mark.take() else {
            return Ok(());
        };
        self.remove(&mark.key).await
    }

    /// Checks that others surely still respect the mark of this backup.
    ///
    /// # Errors
    /// If the backup took too long.
    pub(super) fn check_mark(&self) -> Result<(), BackupError> {
        match &self.mark {
            Some(mark) if mark.begun.elapsed() < self.bounds.backup => Ok(()),
            _ => Err(BackupError::TooLong(self.url.clone())),
        }
    }

    async fn check_others(&self, work: Work, own: &str) -> Result<(), BackupError> {
        let marks = self.objects(RUNNING_NAME).await?;
        // The store's clock wrote all of them: this machine's may differ.
        let Some(now_s) = written_s(&marks, own) else {
            return Err(self.error("use", StoreProblem::ListsLate));
        };
        for found in marks {
            let other = Work::of(&found.name);
            let age_s = now_s.saturating_sub(found.written_s).max(0);
            let lasts_s = i64::try_from(self.bounds.lasts(other).as_secs()).unwrap_or(i64::MAX);
            if found.name == own || other.is_some_and(|other| work.may_run_beside(other)) {
                continue;
            }
            let mark = format!("{RUNNING_NAME}/{}", found.name);
            if age_s < lasts_s {
                return Err(BackupError::Marked {
                    path: self.url.clone(),
                    mark,
                    minutes: age_s / 60,
                });
            }
            // What is old and not known may be no mark at all.
            if other.is_some() {
                self.remove(&self.key(&mark)?).await?;
            }
        }
        Ok(())
    }

    /// Removes an object, which may be gone.
    pub(super) async fn remove(&self, key: &Key) -> Result<(), BackupError> {
        match self.timed(self.store.delete(key)).await {
            Err(failure) if !failure.is_absent() => {
                Err(self.error("delete from", failure.problem()))
            }
            _ => Ok(()),
        }
    }
}

/// When the mark of this name was written; `None` if it is not listed.
fn written_s(marks: &[Found], name: &str) -> Option<i64> {
    let found = marks.iter().find(|found| found.name == name)?;
    Some(found.written_s)
}
