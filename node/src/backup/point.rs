//! A point in time that is restored: a backup, and the archived entries behind it.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use helve_proto::peer::v1::LogId;
use helve_seal::Keyring;

use super::{
    Backup, BackupError,
    archive::{Archive, cluster_of},
    directory::Listed,
    place::Place,
    segment::{Segment, archived},
    until::Until,
};
use crate::quantity::time;

/// What a restore takes up behind its backup.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) backup: Backup,
    /// The segments whose entries are applied, by their names, and their hashes; none: the backup
    /// alone.
    pub(crate) segments: Vec<(String, Bytes)>,
    /// The last entry.
    pub(crate) revision: u64,
    /// The feature level that its entries take.
    pub(crate) feature_level: u32,
}

impl Point {
    /// A backup, and nothing behind it.
    pub(crate) fn alone(backup: Backup) -> Self {
        Self {
            revision: backup.manifest().revision,
            segments: Vec::new(),
            feature_level: 0,
            backup,
        }
    }

    /// A segment again, as it was when it was checked.
    ///
    /// # Errors
    /// If it is another one by now, or the place cannot be read.
    pub(crate) async fn segment(
        place: &Place,
        (name, hash): &(String, Bytes),
    ) -> Result<Segment, BackupError> {
        let segment = place.segment(name).await?;
        if segment.hash() == hash {
            return Ok(segment);
        }
        let why = "it was changed while it was restored";
        Err(BackupError::damaged(place.path().join(name), why))
    }
}

/// The backup that a restore begins with: the one with this id, or the newest that is as old as what
/// is asked for.
///
/// # Errors
/// If there is none, any manifest cannot be used, or several clusters have one.
pub(crate) async fn base(
    place: &Place,
    id: Option<&str>,
    until: Until,
) -> Result<Backup, BackupError> {
    let path = place.path();
    if id.is_some() || until == Until::Latest {
        let backup = place.find(id).await?;
        let (revision, clock_ms) = (backup.manifest().revision, backup.manifest().clock_ms);
        if until.holds(revision, clock_ms) {
            return Ok(backup);
        }
        return Err(too_early(path, until, &backup));
    }
    newest_of_one(path, place.list().await?, until)
}

/// The newest backup that is as old as what is asked for.
fn newest_of_one(path: &Path, listed: Vec<Listed>, until: Until) -> Result<Backup, BackupError> {
    let mut newest: BTreeMap<String, Backup> = BTreeMap::new();
    let mut oldest: Option<Backup> = None;
    for Listed { backup, .. } in listed {
        let backup = backup?;
        let order = |backup: &Backup| (backup.manifest().clock_ms, backup.manifest().revision);
        if oldest.as_ref().is_none_or(|it| order(&backup) < order(it)) {
            oldest = Some(backup.clone());
        }
        let (clock_ms, revision) = order(&backup);
        let known = newest.get(&backup.manifest().cluster_id);
        if until.holds(revision, clock_ms) && known.is_none_or(|it| order(it) < order(&backup)) {
            newest.insert(backup.manifest().cluster_id.clone(), backup);
        }
    }
    let mut found = newest.into_values();
    match (found.next(), found.next(), oldest) {
        (Some(backup), None, _) => Ok(backup),
        (Some(first), Some(second), _) => {
            let all = [first, second].into_iter().chain(found);
            Err(BackupError::SeveralClusters {
                path: path.to_owned(),
                asked: until,
                ids: all.map(|backup| backup.id()).collect(),
            })
        }
        (None, _, Some(oldest)) => Err(too_early(path, until, &oldest)),
        (None, _, None) => Err(BackupError::Nothing(path.to_owned())),
    }
}

fn too_early(path: &Path, asked: Until, oldest: &Backup) -> BackupError {
    let manifest = oldest.manifest();
    BackupError::TooEarly {
        path: path.to_owned(),
        asked,
        oldest: format!(
            "{} of revision {}, {}",
            oldest.id(),
            manifest.revision,
            time(manifest.clock_ms)
        ),
    }
}

/// Finds the entries behind a backup up to what is asked for, and checks each. `read` hears how many
/// bytes were read.
///
/// # Errors
/// If the archive does not reach there, or a segment is missing, damaged, of a newer format or not
/// sent by a node with one of these keys.
pub(crate) async fn find(
    place: &Place,
    backup: Backup,
    until: Until,
    keys: &Keyring,
    mut read: impl FnMut(u64),
) -> Result<Point, BackupError> {
    let (cluster_id, revision) = (
        backup.manifest().cluster_id.clone(),
        backup.manifest().revision,
    );
    let mut point = Point::alone(backup);
    if until == Until::Revision(revision) {
        return Ok(point);
    }
    let archive = place.archive().await?;
    let names = segments(place, &archive, (&cluster_id, revision)).await?;
    let (mut last_ms, mut is_ended) = (point.backup.manifest().clock_ms, false);
    let mut before: Option<Segment> = None;
    for name in names {
        if is_ended || until == Until::Revision(point.revision) {
            break;
        }
        let (segment, path) = (place.segment(&name).await?, place.path().join(&name));
        read(segment.bytes());
        match &before {
            Some(before) => segment.check_follows(before, &path)?,
            None => check_begins(&segment, &point.backup, &path)?,
        }
        segment.check_proof(keys, revision, &path)?;
        for entry in segment.pieces().iter().flat_map(|piece| &piece.entries) {
            let entry = archived(entry).map_err(|why| BackupError::damaged(&path, why))?;
            check_history(&point.backup, &entry.id, &path)?;
            if entry.id.index <= point.revision {
                continue;
            }
            if !until.holds(entry.id.index, entry.ms) {
                is_ended = true;
                break;
            }
            point.revision = entry.id.index;
            point.feature_level = point.feature_level.max(entry.feature_level);
            last_ms = last_ms.max(entry.ms);
        }
        point.segments.push((name, segment.hash().clone()));
        before = Some(segment);
    }
    let reaches = match until {
        Until::Latest => true,
        Until::Revision(last) => point.revision == last,
        Until::Time(time_ms) => is_ended || last_ms == time_ms,
    };
    if reaches {
        return Ok(point);
    }
    Err(BackupError::TooFar {
        path: place.path().to_owned(),
        id: point.backup.id(),
        asked: until,
        reaches: format!("revision {}, {}", point.revision, time(last_ms)),
    })
}

/// Refuses an archive whose entry at the backup's revision is another one.
fn check_history(backup: &Backup, id: &LogId, path: &Path) -> Result<(), BackupError> {
    match backup.snapshot().last_log_id {
        Some(last) if last.index == id.index && last.term != id.term => {
            let why = format!(
                "entry {} is of term {} there, and of term {} in backup {}: the cluster lost entries that were committed",
                id.index,
                id.term,
                last.term,
                backup.id()
            );
            Err(BackupError::damaged(path, why))
        }
        _ => Ok(()),
    }
}

/// Refuses a segment, the first of those behind a backup, that cannot go on there.
pub(super) fn check_begins(
    segment: &Segment,
    backup: &Backup,
    path: &Path,
) -> Result<(), BackupError> {
    let (head, manifest) = (segment.head(), backup.manifest());
    let (first, revision) = (head.first_index, manifest.revision);
    let last_term = backup.snapshot().last_log_id.map_or(0, |last| last.term);
    let why = if head.cluster_id != manifest.cluster_id {
        "it is of another cluster".to_owned()
    } else if first > revision.saturating_add(1) {
        format!("it begins with entry {first}, and the backup ends with {revision}")
    } else if first > revision && head.first_term < last_term {
        // A segment that holds the backup's last entry is compared by that entry.
        format!(
            "entry {first} is of term {} there, behind term {last_term} in backup {}: it is of another history of the cluster",
            head.first_term,
            backup.id()
        )
    } else {
        return Ok(());
    };
    Err(BackupError::damaged(path, why))
}

/// The segments behind a revision, of the run that reaches farthest, by their names. Of two that reach as far, the whole one counts.
async fn segments(
    place: &Place,
    archive: &Archive,
    (cluster_id, revision): (&str, u64),
) -> Result<Vec<String>, BackupError> {
    let mut best: Option<((u64, bool), Vec<String>)> = None;
    for run in archive.runs() {
        if run.cluster() != cluster_of(cluster_id) || run.begins_after() > revision {
            continue;
        }
        let names = run.names_after(revision);
        let Some(last) = names.last() else { continue };
        let reaches = match place.segment(last).await {
            Ok(segment) => (segment.head().last_index, true),
            // It held its first entry at least. What is asked for may be before it.
            Err(BackupError::Damaged { .. }) => {
                let first = run.firsts().last().unwrap_or_default();
                (first.max(revision.saturating_add(1)), false)
            }
            Err(error) => return Err(error),
        };
        let is_farther = best.as_ref().is_none_or(|(best, _)| *best < reaches);
        if reaches.0 > revision && is_farther {
            best = Some((reaches, names));
        }
    }
    Ok(best.map(|(_, names)| names).unwrap_or_default())
}
