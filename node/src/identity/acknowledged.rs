//! How far each node had come when it last acknowledged something, and whether a node that comes back still holds that.
//!
//! A disk that is put back to an older state (a restored volume or virtual machine) is whole in itself, and nothing on it shows
//! that it is old. Its node would vote twice in one term, and help to elect a leader that lacks acknowledged writes. Only its peers
//! can tell. So each node remembers the newest position that every other node acknowledged: the leader from the answers to its
//! entries, a candidate from the votes that it got, the others from the [`Testimony`] that travels with heartbeats and greetings.
//!
//! For a node that lost nothing, positions never fall: it stores a term before it acknowledges anything in it, and within a term its
//! log keeps what it acknowledged. A later run that begins below what an earlier run acknowledged is on an older disk. Runs are
//! counted on the disk itself, so a disk that was copied before its last start begins a run that its peers know already.

mod flushed;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod known;
mod position;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use helve_machine::planted::{self, Plant};
use helve_proto::peer::v1::{Acknowledged as Told, Testimony};
use prost::Message as _;
use tokio::sync::watch;

pub(crate) use self::flushed::Flushed;
use self::known::Known;
pub use self::{
    known::PutBack,
    position::{Position, Run},
};
use crate::{
    limits::{ACKNOWLEDGED_NODES_MAX, ACKNOWLEDGED_UUID_BYTES_MAX},
    storage::data_dir::{DataDir, DataDirError, Write},
};

/// The registry, with this node's own part in it.
#[derive(Debug)]
pub struct AcknowledgedPositions {
    known: Mutex<BTreeMap<String, Known>>,
    /// This node's run, and what its disk held when it began.
    own: Mutex<(Run, Position)>,
    has_changed: AtomicBool,
    kept_in: Mutex<Option<PathBuf>>,
    takes_part: AtomicBool,
    /// What this node waits for before it takes part; empty if nothing.
    waits_for: ArcSwap<String>,
    /// Why this node must not take part any more.
    put_back: watch::Sender<Option<Arc<String>>>,
    /// By the peer's uuid: why its disk is an older one.
    peers_put_back: Mutex<BTreeMap<String, PutBack>>,
}

impl Default for AcknowledgedPositions {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            own: Mutex::default(),
            has_changed: AtomicBool::new(false),
            kept_in: Mutex::default(),
            takes_part: AtomicBool::new(true),
            waits_for: ArcSwap::default(),
            put_back: watch::Sender::new(None),
            peers_put_back: Mutex::default(),
        }
    }
}

impl AcknowledgedPositions {
    /// Begins a run of this node, whose uuid is `own`: it does not take part before [`take_part`](Self::take_part). `stored` is what
    /// an earlier run [stored](Self::store); what cannot be read of it is forgotten.
    pub fn begin(&self, own: &str, run: Run, began: Position, stored: Option<&[u8]>) {
        *lock(&self.own) = (run, began);
        self.takes_part.store(false, Ordering::Release);
        let Some(stored) = stored else { return };
        match Testimony::decode(stored) {
            Ok(stored) => stored.acknowledged.iter().for_each(|told| self.learn(told)),
            Err(error) => {
                tracing::warn!(%error, "what other nodes acknowledged is forgotten: its file is damaged");
            }
        }
        self.judge_own(own);
    }

    fn judge_own_by(&self, known: Known) {
        let (run, began) = *lock(&self.own);
        if let Err(why) = known.judge(run, began)
            && !is_loss_planted()
        {
            self.set_put_back(&why.to_string());
        }
    }

    fn judge_own(&self, own: &str) {
        let (run, began) = *lock(&self.own);
        if let Err(why) = self.judge(own, run, began) {
            self.set_put_back(&why.to_string());
        }
    }

    /// What is known is stored in this data directory from now on.
    pub fn keep_in(&self, path: PathBuf) {
        *lock(&self.kept_in) = Some(path);
    }

    /// Stores what is known, if that has changed since it was stored last. Blocks.
    ///
    /// # Errors
    /// If the disk fails; then the next call tries again.
    pub fn store(&self, write: Write) -> Result<(), DataDirError> {
        // Held, so that nothing older is written over something newer.
        let kept_in = lock(&self.kept_in);
        let Some(path) = kept_in.as_ref() else {
            return Ok(());
        };
        let Some(content) = self.encode() else {
            return Ok(());
        };
        let written = DataDir::write_acknowledged(path, &content, write);
        if written.is_err() {
            self.has_changed.store(true, Ordering::Release);
        }
        written
    }

    fn encode(&self) -> Option<Vec<u8>> {
        let changed = self.has_changed.swap(false, Ordering::AcqRel);
        changed.then(|| self.testimony().encode_to_vec())
    }

    /// Forgets every node that is none of these.
    pub fn retain(&self, members: &BTreeSet<String>) {
        lock(&self.known).retain(|uuid, _| members.contains(uuid));
        lock(&self.peers_put_back).retain(|uuid, _| members.contains(uuid));
    }

    /// This node's run.
    #[must_use]
    pub fn run(&self) -> Run {
        lock(&self.own).0
    }

    /// What this node tells its peers.
    #[must_use]
    pub fn testimony(&self) -> Testimony {
        let (run, began) = *lock(&self.own);
        let known = lock(&self.known);
        let told = known.iter().map(|(uuid, known)| Told {
            uuid: uuid.clone(),
            run: Some(known.run.to_proto()),
            position: Some(known.position.to_proto()),
            before: known.before.map(Position::to_proto),
        });
        Testimony {
            run: Some(run.to_proto()),
            began: Some(began.to_proto()),
            takes_part: self.takes_part(),
            acknowledged: told.collect(),
        }
    }

    /// This run of a node has acknowledged what is up to this position.
    pub fn note(&self, uuid: &str, run: Run, position: Position) {
        if !run.is_known() || uuid.len() > ACKNOWLEDGED_UUID_BYTES_MAX {
            return;
        }
        let told = Known {
            run,
            position,
            before: None,
        };
        self.merge(uuid, told);
    }

    /// Takes up what the peer with this uuid tells, of itself, of this node with the uuid `own`, and of others. Returns whether the peer's
    /// run was not known before: it should be [stored](Self::store) before the peer is answered, for it may take part then.
    pub fn hear(&self, own: &str, peer: &str, testimony: &Testimony) -> bool {
        let (run, began) = (
            Run::from_proto(testimony.run),
            Position::from_proto(testimony.began),
        );
        if let Err(why) = self.judge(peer, run, began) {
            // What such a node remembers is old as well.
            if lock(&self.peers_put_back).insert(peer.to_owned(), why) != Some(why) {
                tracing::error!(peer, "a peer's disk was put back to an older state: {why}");
            }
            return false;
        }
        lock(&self.peers_put_back).remove(peer);
        let is_new = run.is_known() && lock(&self.known).get(peer).is_none_or(|k| k.run != run);
        self.note(peer, run, Position::default());
        for told in testimony.acknowledged.iter().take(ACKNOWLEDGED_NODES_MAX) {
            // By itself: what this node, or a leader beside it, knows of its run may hide that there was another one.
            if told.uuid == own {
                self.judge_own_by(Known::from_proto(told));
            }
            self.learn(told);
        }
        self.judge_own(own);
        is_new
    }

    fn learn(&self, told: &Told) {
        let known = Known::from_proto(told);
        if known.run.is_known() && told.uuid.len() <= ACKNOWLEDGED_UUID_BYTES_MAX {
            self.merge(&told.uuid, known);
        }
    }

    fn merge(&self, uuid: &str, told: Known) {
        let mut known = lock(&self.known);
        if let Some(former) = known.get_mut(uuid) {
            let merged = former.merged(told);
            if merged != *former {
                *former = merged;
                self.has_changed.store(true, Ordering::Release);
            }
        } else if known.len() < ACKNOWLEDGED_NODES_MAX {
            known.insert(uuid.to_owned(), told);
            self.has_changed.store(true, Ordering::Release);
        }
    }

    /// Whether a run that began so may be one of this node, as far as this one knows.
    ///
    /// # Errors
    /// If the node has acknowledged more than the run began with.
    pub fn judge(&self, uuid: &str, run: Run, began: Position) -> Result<(), PutBack> {
        let Some(known) = lock(&self.known).get(uuid).copied() else {
            return Ok(());
        };
        let judged = known.judge(run, began);
        if judged.is_err() && is_loss_planted() {
            return Ok(());
        }
        judged
    }

    /// A log that lacks this entry cannot be that of a node that acknowledged what this one did in the term.
    #[must_use]
    pub fn contradicts(&self, uuid: &str, term: u64, lacking: u64) -> bool {
        let known = lock(&self.known);
        known
            .get(uuid)
            .is_some_and(|known| known.position.has_entry_of(term, lacking))
    }

    /// This node votes and stores entries.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        self.takes_part.load(Ordering::Acquire)
    }

    /// From now on this node takes part.
    pub fn take_part(&self) {
        self.waits_for.store(Arc::default());
        self.takes_part.store(true, Ordering::Release);
    }

    /// Says what this node waits for before it takes part.
    pub fn set_waits_for(&self, what: &str) {
        if self.waits_for.load().as_str() != what {
            tracing::info!("this node does not take part yet: {what}");
            self.waits_for.store(Arc::new(what.to_owned()));
        }
    }

    /// What this node waits for before it takes part; empty if nothing.
    #[must_use]
    pub fn waits_for(&self) -> Arc<String> {
        self.waits_for.load_full()
    }

    /// This node's disk lacks what it has acknowledged: from now on it must not take part.
    pub fn set_put_back(&self, why: &str) {
        self.put_back.send_if_modified(|known| {
            let is_new = known.is_none();
            if is_new {
                *known = Some(Arc::new(why.to_owned()));
            }
            is_new
        });
    }

    /// Why this node must not take part, if its disk lacks what it has acknowledged.
    #[must_use]
    pub fn put_back(&self) -> Option<Arc<String>> {
        self.put_back.borrow().clone()
    }

    /// Waits until this node is found to be on an older disk, and returns how that shows.
    pub async fn found_put_back(&self) -> Arc<String> {
        let mut put_back = self.put_back.subscribe();
        loop {
            if let Some(why) = put_back.borrow_and_update().clone() {
                return why;
            }
            if put_back.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why the peer with this uuid must be replaced, if its disk lacks what it has acknowledged.
    #[must_use]
    pub fn peer_put_back(&self, uuid: &str) -> Option<PutBack> {
        lock(&self.peers_put_back).get(uuid).copied()
    }
}

/// A bug is planted that loses what was acknowledged: tests shall see that, and no check may come before it.
pub(crate) fn is_loss_planted() -> bool {
    let bugs = [
        Plant::TrustOldDisk,
        Plant::ReuseId,
        Plant::SkipFsync,
        Plant::AckBeforeSync,
        Plant::ApplyBeforeDurable,
        Plant::HalfInstall,
    ];
    bugs.into_iter().any(planted::is)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock leaves the content whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
