//! The archived log: runs of segments, each behind a backup.
//!
//! ```text
//! TO/log/LOCK      in a directory: held while the log is archived there
//! TO/log/ID/FIRST  a segment, by its first entry in 20 digits, of the run behind backup ID
//! ```
//!
//! A run has no gap: where entries are missing, a new one begins behind a new backup. A backup that
//! is made meanwhile begins none. Its entries are in the run that is under way.

use std::collections::BTreeMap;

use bytes::Bytes;
use helve_proto::peer::v1::LogId;

use super::{
    Backup, CLUSTER_SHOWN,
    segment::Growing,
    segment_path::{LOG_NAME, digits},
};

/// All segments of a place.
#[derive(Debug, Default)]
pub struct Archive {
    runs: Vec<LogRun>,
}

/// Segments that follow each other.
#[derive(Debug)]
pub struct LogRun {
    /// The backup that it began behind, by its id.
    id: String,
    /// The first entry of each segment, and the size of its file.
    segments: BTreeMap<u64, u64>,
}

/// Where the archive of a cluster's log goes on.
#[derive(Debug)]
pub struct Tip {
    /// The backup that its run began behind.
    pub run: String,
    /// The last entry that is kept.
    pub last: LogId,
    /// The hash of the last segment; empty without one.
    pub hash: Bytes,
    /// A node with data keys made the cluster's newest backup.
    pub is_proven: bool,
}

/// How much of a cluster's id is in the ids of its backups.
pub(super) fn cluster_of(cluster_id: &str) -> &str {
    cluster_id.get(..CLUSTER_SHOWN).unwrap_or(cluster_id)
}

/// How much of a cluster's id is in the id of a run; nothing if that is no id.
pub(super) fn cluster_of_run(id: &str) -> &str {
    parts_of(id).map_or("", |(cluster, _)| cluster)
}

impl Archive {
    /// Of the names of files below the place of the log, and their sizes. Others are not of it.
    pub(super) fn of(files: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut runs: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
        for (name, size_bytes) in files {
            let Some((id, first)) = name.split_once('/') else {
                continue;
            };
            let is_of_run = parts_of(id).is_some();
            let index = first.parse::<u64>().ok();
            let index = index.filter(|index| first == digits(*index));
            if let Some(index) = index.filter(|_| is_of_run) {
                runs.entry(id.to_owned())
                    .or_default()
                    .insert(index, size_bytes);
            }
        }
        let runs = runs
            .into_iter()
            .map(|(id, segments)| LogRun { id, segments });
        Self {
            runs: runs.collect(),
        }
    }

    /// The runs that have segments.
    #[must_use]
    pub fn runs(&self) -> &[LogRun] {
        &self.runs
    }

    /// The run of a cluster that began last.
    pub(super) fn newest(&self, cluster_id: &str) -> Option<&LogRun> {
        let cluster = cluster_of(cluster_id);
        let runs = self.runs.iter().filter(|run| run.cluster() == cluster);
        runs.max_by_key(|run| run.begins_after())
    }

    /// The segments that none of these backups needs, by their names, and their sizes: of each
    /// cluster those before its oldest backup. The last one of a run stays while its cluster has a
    /// backup: where it ends is not known.
    pub(super) fn unneeded(&self, left: &[String]) -> Vec<(String, u64)> {
        let mut unneeded = Vec::new();
        for run in &self.runs {
            let left = left.iter().filter_map(|id| parts_of(id));
            let of_cluster = left.filter(|(cluster, _)| *cluster == run.cluster());
            let oldest = of_cluster.map(|(_, revision)| revision).min();
            let mut segments = run.segments.iter().peekable();
            while let Some((first, size_bytes)) = segments.next() {
                let is_needed = oldest.is_some_and(|oldest| {
                    let next = segments.peek();
                    next.is_none_or(|(next, _)| **next > oldest.saturating_add(1))
                });
                if !is_needed {
                    unneeded.push((run.name(*first), *size_bytes));
                }
            }
        }
        unneeded
    }
}

impl LogRun {
    /// The backup that it began behind, by its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The first entries of its segments.
    pub(super) fn firsts(&self) -> impl Iterator<Item = u64> {
        self.segments.keys().copied()
    }

    /// How many segments it has.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let sizes = self.segments.values().copied();
        sizes.fold(0, u64::saturating_add)
    }

    /// The first entry that is kept.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.segments.keys().next().copied().unwrap_or_default()
    }

    /// The name of its last segment.
    #[must_use]
    pub fn last_name(&self) -> String {
        self.name(
            self.segments
                .keys()
                .next_back()
                .copied()
                .unwrap_or_default(),
        )
    }

    pub(super) fn cluster(&self) -> &str {
        cluster_of_run(&self.id)
    }

    pub(super) fn begins_after(&self) -> u64 {
        parts_of(&self.id).map_or(0, |(_, revision)| revision)
    }

    /// The names of the segments that may hold entries behind this one, in their order.
    pub(super) fn names_after(&self, revision: u64) -> Vec<String> {
        let next = revision.saturating_add(1);
        // The one that holds the revision itself shows whether it is of the same history.
        let from = self.segments.range(..=revision).next_back();
        let from = from.or_else(|| self.segments.range(..=next).next_back());
        let from = from.map_or(next, |(first, _)| *first);
        let held = self.segments.range(from..);
        held.map(|(first, _)| self.name(*first)).collect()
    }

    pub(super) fn name(&self, first: u64) -> String {
        format!("{LOG_NAME}/{}/{}", self.id, digits(first))
    }
}

/// The cluster, as far as it is shown, and the revision in the id of a backup.
fn parts_of(id: &str) -> Option<(&str, u64)> {
    let (cluster, revision) = id.rsplit_once('-')?;
    let is_cluster = cluster.len() == CLUSTER_SHOWN && !cluster.contains(['/', '.']);
    Some((cluster, revision.parse().ok()?)).filter(|_| is_cluster)
}

impl Tip {
    /// Behind a backup.
    #[must_use]
    pub fn behind(backup: &Backup) -> Self {
        let term = backup.snapshot().last_log_id.map_or(0, |last| last.term);
        Self {
            run: backup.id(),
            last: LogId {
                term,
                index: backup.manifest().revision,
            },
            hash: Bytes::new(),
            is_proven: backup.has_proof(),
        }
    }

    /// The name of the segment that goes on here.
    pub(super) fn next_name(&self) -> String {
        let next = self.last.index.saturating_add(1);
        format!("{LOG_NAME}/{}/{}", self.run, digits(next))
    }

    /// Whether one of these backups, by their ids, is of its cluster, and not older than its run.
    pub(super) fn is_reached_by(&self, ids: &[String]) -> bool {
        let Some((cluster, begins_after)) = parts_of(&self.run) else {
            return false;
        };
        let backups = ids.iter().filter_map(|id| parts_of(id));
        let mut of_cluster = backups.filter(|(of, _)| *of == cluster);
        of_cluster.any(|(_, revision)| revision >= begins_after)
    }

    /// A segment that goes on here.
    #[must_use]
    pub fn segment(&self, cluster_id: &str) -> Growing {
        Growing::begin(cluster_id, self.last, self.hash.clone())
    }
}

#[cfg(test)]
mod tests;
