//! Files of a stopped node that are damaged: cut short, or with one bit flipped.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use rand::{RngExt as _, rngs::SmallRng, seq::IndexedRandom as _};
use tonic::async_trait;

use super::{Fault, Seen, Target, kill::kill, wipe::votes_again};
use crate::{
    cluster::Cluster,
    wait::{Look, until},
};

/// Which files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Of the log: its write-ahead log and its tables.
    Log,
    /// Of the rows: their write-ahead log and their tables.
    Rows,
    /// The lists of files of both databases.
    Manifest,
    /// What lies beside the databases: who the node is, what was synced, which generation counts.
    SideFile,
    /// Of a snapshot.
    Snapshot,
}

impl Place {
    fn holds(self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_in = |directory: &str| {
            path.components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with(directory))
        };
        let is_data = name.ends_with(".log") || name.ends_with(".sst");
        match self {
            Self::Log => is_in("raft") && is_data,
            Self::Rows => is_in("state-") && is_data,
            Self::Manifest => name.starts_with("MANIFEST") && !is_in("snap"),
            Self::SideFile => {
                !is_in("snap") && matches!(&*name, "synced" | "CURRENT" | "node.json")
            }
            Self::Snapshot => is_in("snap-"),
        }
    }

    /// The files that are there, with something in them.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub fn files(self, data_directory: &Path) -> Result<Vec<(PathBuf, u64)>> {
        let mut files = Vec::new();
        walk(data_directory, Path::new(""), &mut files)?;
        files.retain(|(path, length)| *length > 0 && self.holds(path));
        files.sort();
        Ok(files)
    }
}

/// All files below a directory, named from there.
fn walk(root: &Path, inner: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    for entry in fs::read_dir(root.join(inner))? {
        let entry = entry?;
        let path = inner.join(entry.file_name());
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            walk(root, &path, files)?;
        } else {
            files.push((path, metadata.len()));
        }
    }
    Ok(())
}

/// What is done to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The newest is cut short.
    Truncated,
    /// In one of them one bit is flipped.
    BitFlipped,
}

impl Damage {
    /// Does it, and says what was done to which file.
    ///
    /// # Errors
    ///
    /// If there is no such file, or it cannot be changed.
    pub fn inflict(self, place: Place, directory: &Path, rng: &mut SmallRng) -> Result<String> {
        let files = place.files(directory)?;
        match self {
            Self::Truncated => {
                let newest = files.iter().max_by_key(|(path, _)| {
                    let modified = fs::metadata(directory.join(path)).and_then(|m| m.modified());
                    (modified.ok(), path.clone())
                });
                let (path, length) = newest.context("there is no file to cut")?;
                let left = rng.random_range(0..*length);
                let file = OpenOptions::new().write(true).open(directory.join(path))?;
                file.set_len(left)?;
                Ok(format!(
                    "{} cut from {length} to {left} bytes",
                    path.display()
                ))
            }
            Self::BitFlipped => {
                let (path, length) = files.choose(rng).context("there is no file to damage")?;
                let (at, bit) = (rng.random_range(0..*length), rng.random_range(0..8_u8));
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(directory.join(path))?;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                file.write_all_at(&[byte[0] ^ (1 << bit)], at)?;
                file.read_exact_at(&mut byte, at)?;
                Ok(format!(
                    "{}: bit {bit} of byte {at} of {length} flipped to {:#04x}",
                    path.display(),
                    byte[0]
                ))
            }
        }
    }
}

/// One node is killed, its files damaged, and started. It may refuse to start, or mend itself; then its disk is replaced.
#[derive(Debug)]
pub struct DamagedFiles {
    name: &'static str,
    damage: Damage,
    place: Place,
    damaged: Option<u64>,
}

/// All of them.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let all = [
        ("truncated-log", Damage::Truncated, Place::Log),
        ("truncated-rows", Damage::Truncated, Place::Rows),
        ("flipped-log", Damage::BitFlipped, Place::Log),
        ("flipped-rows", Damage::BitFlipped, Place::Rows),
        ("flipped-manifest", Damage::BitFlipped, Place::Manifest),
        ("flipped-side-file", Damage::BitFlipped, Place::SideFile),
        ("flipped-snapshot", Damage::BitFlipped, Place::Snapshot),
    ];
    all.into_iter().map(|(name, damage, place)| {
        Box::new(DamagedFiles {
            name,
            damage,
            place,
            damaged: None,
        }) as Box<dyn Fault>
    })
}

#[async_trait(?Send)]
impl Fault for DamagedFiles {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seats = Target::Random.pick(cluster, rng).await?;
        let seat = *seats.first().context("one node is picked")?;
        if self.place == Place::Snapshot {
            cluster
                .caller(seat)
                .take_snapshot(Default::default())
                .await?;
        }
        let mut seen = Seen::one(kill(cluster, seat)?);
        self.damaged = Some(seat);
        let directory = cluster.data_directory(seat);
        seen.add(self.damage.inflict(self.place, &directory, rng)?);
        cluster.start(seat)?;
        seen.add(starts_or_refuses(cluster, seat).await?);
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        let Some(seat) = self.damaged.take() else {
            return Ok(());
        };
        cluster.wipe(seat)?;
        cluster.start(seat)?;
        votes_again(cluster, seat).await?;
        cluster.all_ready().await
    }
}

/// Waits until a node is ready, or has refused to start and said why.
async fn starts_or_refuses(cluster: &mut Cluster, seat: u64) -> Result<String> {
    let caller = cluster.caller(seat);
    let node = cluster.node_mut(seat);
    let ended = until("the node to be ready, or to refuse", async || {
        match node.ended() {
            Ok(Some(status)) => return Look::Done(Ok(Some(status))),
            Err(error) => return Look::Done(Err(error)),
            Ok(None) => {}
        }
        match caller.status().await {
            Ok(reply) if reply.node.as_ref().is_some_and(|node| node.ready) => Look::Done(Ok(None)),
            Ok(reply) => Look::NotYet(format!("{:?}", reply.node)),
            Err(status) => Look::NotYet(status.to_string()),
        }
    })
    .await??;
    let Some(status) = ended else {
        return Ok(format!("node {seat} is ready"));
    };
    let log = cluster.node(seat).log_tail();
    let last = log.lines().last().unwrap_or_default();
    ensure!(
        status.code().is_some_and(|code| code != 0) && !log.contains("panicked"),
        "node {seat} is to refuse in good order, and ended with {status}:\n{log}"
    );
    Ok(format!("node {seat} refuses, {status}: {last}"))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn damaged(damage: Damage, place: Place, path: &str) -> (Vec<u8>, Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let before = vec![7; 100];
        fs::write(&file, &before).unwrap();
        let mut rng = SmallRng::seed_from_u64(5);
        let said = damage.inflict(place, directory.path(), &mut rng).unwrap();
        assert!(said.contains(path), "{said}");
        (before, fs::read(file).unwrap())
    }

    #[test]
    fn a_flipped_bit_is_one_bit() {
        for (place, path) in [
            (Place::Log, "raft/000004.log"),
            (Place::Rows, "state/state-1/000009.sst"),
            (Place::Manifest, "raft/MANIFEST-000005"),
            (Place::SideFile, "raft/synced"),
            (Place::Snapshot, "snapshots/snap-1/000009.sst"),
        ] {
            let (before, after) = damaged(Damage::BitFlipped, place, path);
            let bits = before.iter().zip(&after).map(|(a, b)| (a ^ b).count_ones());
            assert_eq!((after.len(), bits.sum::<u32>()), (100, 1));
        }
    }

    #[test]
    fn a_cut_file_is_the_beginning_of_what_it_was() {
        let (before, after) = damaged(Damage::Truncated, Place::Log, "raft/000004.log");
        assert!(after.len() < before.len() && before.starts_with(&after));
    }

    #[test]
    fn what_is_not_there_is_not_damaged() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("LOCK"), "7").unwrap();
        let mut rng = SmallRng::seed_from_u64(5);
        for damage in [Damage::Truncated, Damage::BitFlipped] {
            assert!(
                damage
                    .inflict(Place::Log, directory.path(), &mut rng)
                    .is_err()
            );
        }
    }
}
