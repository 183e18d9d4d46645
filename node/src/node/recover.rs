//! The recovery of a cluster that has lost its majority: what one node holds becomes a new cluster of that node alone.

mod others;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use helve_machine::level;
use helve_proto::peer::v1::{LogId, NodeRecord};
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    digest::{DigestError, Digester},
    failpoint::{self, Failpoint},
    identity::Identity,
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    log_replay::{
        FutureRowsError,
        refound::{self, Holding},
    },
    peer_channel::Dialler,
    raft::log_store::LogStore,
    refusal::Refusal,
    stamp::{self, EntropyError},
    storage::{
        checkpoint::Snapshots,
        data_dir::{DataDir, DataDirError, NodeIdentity},
        error::StorageError,
        options::StateOptions,
        purge_gate::PurgeGate,
        state_db::StateDb,
    },
    tls::PortTls,
    vault::{self, KeyFiles, Vault},
};

pub use self::others::Newer;
pub use crate::membership::bootstrap::{IF_MAJORITY_LOST, MAJORITY_SILENT};

/// How long hashing all rows may take.
const DIGEST_LIMIT: Duration = Duration::from_secs(3600);

/// What to recover.
pub struct Request {
    /// The data directory of the node that survived. The node must not run.
    pub data_dir: PathBuf,
    /// Peer addresses to ask besides those that the node's own membership names.
    pub peers: BTreeMap<u64, String>,
    /// How to connect to peers over TLS; `None`: in plain text.
    pub tls: Option<Arc<PortTls>>,
    /// The node's data keys, if it has any.
    pub data_keys: KeyFiles,
    /// Do it. Otherwise only the [`Report`] is made, and nothing is changed.
    pub confirmed: bool,
}

/// What a recovery does, or would do.
#[derive(Debug, Serialize)]
pub struct Report {
    /// It was done.
    pub done: bool,
    /// An earlier recovery of this node was cut short, and is taken up again. What it left behind may be listed no more.
    pub resumed: bool,
    /// The node's seat and id, which it keeps.
    pub seat: u64,
    /// See `seat`.
    pub node_id: u64,
    /// The cluster that lost its majority.
    pub former_cluster_id: String,
    /// The new cluster; empty while nothing was done.
    pub cluster_id: String,
    /// The last entry that this node knows to be committed. All up to it is kept, and was acknowledged.
    pub committed_index: u64,
    /// The last entry of its log. All up to it is kept; what is behind `committed_index` may or may not have been acknowledged.
    pub last_index: u64,
    /// The term of that entry. Of several survivors the one with the highest term has the newest
    /// data, and the index decides only within a term.
    pub last_term: u64,
    /// How many rows there are in the new cluster, and their SHA-256; 0 and empty while nothing was done.
    pub rows: u64,
    /// See `rows`.
    pub digest: String,
    /// What is lost, or may be, in words.
    pub may_be_lost: Vec<String>,
    /// Members of the former cluster that are left behind.
    pub left_behind: Vec<LeftBehind>,
}

/// A member of the former cluster.
#[derive(Debug, Serialize)]
pub struct LeftBehind {
    /// Its id.
    pub node_id: u64,
    /// Its seat.
    pub seat: u64,
    /// Its peer address.
    pub peer_address: String,
}

/// Why nothing was recovered. Nothing was changed, unless an error of the disk says otherwise; then the same command goes on.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The data directory cannot be used, or its node runs.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// What it holds cannot be used.
    #[error("--data-dir: {0}")]
    Storage(#[from] StorageError),
    /// The data keys do not fit it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The log cannot be applied.
    #[error("--data-dir: the log cannot be applied: {0}")]
    FutureRowsError(#[from] FutureRowsError),
    /// The operating system gave no entropy.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// The rows could not be hashed.
    #[error("the new cluster was made, but its rows could not be hashed: {0}")]
    Digest(#[from] DigestError),
    /// It holds nothing of a cluster.
    #[error(
        "--data-dir {}: it holds nothing of a cluster; name the directory of a node that holds rows", .0.display()
    )]
    Nothing(PathBuf),
    /// It was taken out of its cluster.
    #[error(
        "--data-dir {}: this node was removed from its cluster, so what it holds is old; choose another survivor", .0.display()
    )]
    Removed(PathBuf),
    /// Its rows are of a newer version.
    #[error(
        "the rows are at feature level {needed}, and this version supports {supported}: use the version that ran here last, or a newer one"
    )]
    TooOld {
        /// Of the rows.
        needed: u32,
        /// The newest that this version supports.
        supported: u32,
    },
    /// There is a majority.
    #[error(
        "nothing is lost: with this node, {0} of {1} voters are there (those that answer: {2}); start this node instead. If their disks \
         were put back to an older state, stop them first"
    )]
    MajorityAnswers(usize, usize, String),
    /// Another node holds what this one lacks.
    #[error("{0}; if its data is of no use, stop it all the same, and run this command again")]
    NewerAnswers(Newer),
}

/// The parts of a stopped node.
struct Stopped {
    data_dir: DataDir,
    known: NodeIdentity,
    log: LogStore,
    state: Arc<StateDb>,
    holding: Holding,
    /// Its cluster seals, and no disk key tells whether its rows and log were changed.
    is_unguarded: bool,
}

/// Looks at what a stopped node holds and, if that is confirmed, makes it a new cluster of that node alone.
///
/// # Errors
/// See [`RecoverError`].
pub async fn recover(request: Request) -> Result<Report, RecoverError> {
    let stopped = Stopped::open(&request)?;
    let identity = stopped.identity(Dialler::new(request.tls.clone()));
    let replies = others::ask(&stopped, &identity, &request.peers).await;
    others::check_lost(&stopped, &replies)?;
    let newer = others::newest(&stopped, &replies);
    let mut report = stopped.report(&identity, newer.as_ref());
    if request.confirmed {
        if let Some(newer) = newer {
            return Err(RecoverError::NewerAnswers(newer));
        }
        stopped.carry_out(&mut report).await?;
    }
    Ok(report)
}

impl Stopped {
    fn open(request: &Request) -> Result<Self, RecoverError> {
        let path = &request.data_dir;
        let data_dir = DataDir::open_stopped(path)?;
        let known = data_dir.identity().clone();
        if known.removed {
            return Err(RecoverError::Removed(path.clone()));
        }
        let keys = &request.data_keys;
        let key = Vault::new(keys.clone(), keys.read()?)
            .disk_keys()
            .open_stopped(path)?;
        let log_path = data_dir.log_path();
        let has_disk_key = key.is_some();
        let log = LogStore::open_under(
            &log_path,
            GROUP_ID,
            LOG_TAIL_BYTES,
            PurgeGate::default(),
            key.clone(),
        )?;
        let state = StateDb::open_under(path, StateOptions::default(), key)?;
        let needed = state.read(|view| helve_machine::feature_level(view, GROUP_ID));
        let needed = needed.map_err(FutureRowsError::from)?;
        if needed > level::supported() {
            let supported = level::supported();
            return Err(RecoverError::TooOld { needed, supported });
        }
        let nothing = || RecoverError::Nothing(path.clone());
        let holding = refound::survey(&log, &state)?.ok_or_else(nothing)?;
        if known.cluster_id.is_empty() {
            return Err(nothing());
        }
        let (sealing, _) = state.read(|view| vault::read_rows(view))?;
        let seals = sealing.is_some_and(|row| !vault::is_over(&row));
        Ok(Self {
            data_dir,
            known,
            log,
            state: Arc::new(state),
            holding,
            is_unguarded: seals && !has_disk_key,
        })
    }

    /// This node, as it shows itself to peers that it asks.
    fn identity(&self, dialler: Dialler) -> Identity {
        let known = &self.known;
        let identity = Identity::new(self.record(), known.node_id, known.cluster_id.clone());
        let identity = identity.dialling(dialler);
        let stored = self.data_dir.read_acknowledged();
        let acknowledged = identity.acknowledged();
        acknowledged.begin(
            &known.uuid,
            crate::identity::acknowledged::Run::default(),
            self.log.position(),
            stored.as_deref(),
        );
        identity
    }

    /// What the membership records of this node; what it does not, a start corrects.
    fn record(&self) -> NodeRecord {
        let member = self.holding.members.get(&self.known.node_id);
        let mut record = member.map(|(node, _)| node.clone()).unwrap_or_default();
        record.uuid.clone_from(&self.known.uuid);
        record.seat = self.known.seat;
        record.feature_level = level::supported();
        record
    }

    /// Whether this node voted, as its log has it. One that an earlier try left alone there did.
    fn voted(&self) -> bool {
        let member = self.holding.members.get(&self.known.node_id);
        member.is_none_or(|(_, votes)| *votes)
    }

    fn others(&self) -> impl Iterator<Item = (u64, &NodeRecord, bool)> {
        let members = self.holding.members.iter();
        members
            // A recovery that was cut short may have left this node alone there, under another uuid.
            .filter(|(id, (node, _))| **id != self.known.node_id && node.uuid != self.known.uuid)
            .map(|(id, (node, votes))| (*id, node, *votes))
    }

    fn report(&self, identity: &Identity, newer: Option<&Newer>) -> Report {
        let LogId { term, index: last } = self.holding.last;
        let committed = self.holding.committed.min(last);
        let mut may_be_lost = vec![format!(
            "what was acknowledged after entry {last}: this node did not receive it"
        )];
        if committed < last {
            may_be_lost.push(format!(
                "nothing of the entries {} to {last}: they are kept, though not all of them may have been acknowledged",
                committed + 1
            ));
        }
        if !self.voted() {
            may_be_lost.push(
                "more than a voter's disk would lose: this node was a learner, and writes were acknowledged without it; if the disk of a \
                 voter is left, recover that node instead"
                    .to_owned(),
            );
        }
        may_be_lost.extend(newer.map(ToString::to_string));
        let is_told = |uuid: &str| newer.is_some_and(|newer| newer.uuid == uuid);
        for told in identity.acknowledged().testimony().acknowledged {
            let position = told.position.and_then(|position| position.log_id);
            let is_other = told.uuid != self.known.uuid && !is_told(&told.uuid);
            let Some(held) = position.filter(|_| is_other) else {
                continue;
            };
            let id = self.others().find(|(_, node, _)| node.uuid == told.uuid);
            let node = id.map_or_else(|| told.uuid.clone(), |(id, _, _)| id.to_string());
            may_be_lost.extend(others::beyond(self.holding.last, held, &node));
        }
        if self.is_unguarded {
            may_be_lost.push(
                "certainty that nothing but Helve wrote this disk: its cluster seals, and its file `disk-key` was removed, or an earlier \
                 version wrote it last"
                    .to_owned(),
            );
        }
        if !self.known.put_back.is_empty() {
            may_be_lost.push(format!(
                "this node's own disk was put back to an older state: {}",
                self.known.put_back
            ));
        }
        Report {
            done: false,
            resumed: self.known.recovering,
            seat: self.known.seat,
            node_id: self.known.node_id,
            former_cluster_id: self.known.cluster_id.clone(),
            cluster_id: String::new(),
            committed_index: committed,
            last_index: last,
            last_term: term,
            rows: 0,
            digest: String::new(),
            may_be_lost,
            left_behind: self
                .others()
                .map(|(node_id, node, _)| LeftBehind {
                    node_id,
                    seat: node.seat,
                    peer_address: node.peer_address.clone(),
                })
                .collect(),
        }
    }

    async fn carry_out(mut self, report: &mut Report) -> Result<(), RecoverError> {
        let member = (self.known.node_id, self.record());
        self.data_dir.begin_recovery()?;
        failpoint::pass(Failpoint::RecoveryBegun);
        let founding = Founding {
            data_dir: self.data_dir,
            log: self.log,
            state: Arc::clone(&self.state),
        };
        report.cluster_id = founding.found(member, report.last_index).await?;
        report.done = true;
        let digest = Digester::new(self.state);
        let digest = digest.digest(Instant::now() + DIGEST_LIMIT).await?;
        report.rows = digest.rows;
        report.digest = HEXLOWER.encode(&digest.digest);
        Ok(())
    }
}

/// The parts of a directory that becomes a new cluster's, and says already that this is under way.
pub(super) struct Founding {
    pub(super) data_dir: DataDir,
    pub(super) log: LogStore,
    pub(super) state: Arc<StateDb>,
}

impl Founding {
    /// Makes it a new cluster of this member alone, under another uuid, with all entries up to the last one. Answers the cluster's id.
    pub(super) async fn found(
        mut self,
        (node_id, record): (u64, NodeRecord),
        last_index: u64,
    ) -> Result<String, RecoverError> {
        let (cluster_id, uuid) = (stamp::mint_uuid()?, stamp::mint_uuid()?);
        let node = NodeRecord {
            uuid: uuid.clone(),
            ..record
        };
        // What was sent as a snapshot before belongs to the former cluster.
        Snapshots::remove_all(&self.data_dir.snapshots_path())?;
        let member = (node_id, node);
        refound::refound(&mut self.log, &self.state, &cluster_id, member).await?;
        self.data_dir
            .finish_recovery(&uuid, &cluster_id, last_index + 1)?;
        self.log.stop();
        Ok(cluster_id)
    }
}
