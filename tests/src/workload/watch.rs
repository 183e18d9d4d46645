//! Watchers beside writers: what was acknowledged is told once, in the order of the log, whatever dies; or a watch says that it cannot.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use anyhow::Result;
use futures::StreamExt as _;
use helve_client::{
    Change, ChangeKind, Changes, Client, Error, ErrorKind, KeyOptions, Keys, Owner, StateTool as _,
    Ttl, Watch,
};
use rand::RngExt as _;
use serde_json::json;
use tokio::time::{Instant, timeout_at};
use tonic::async_trait;

use super::{Harm, Harmed, Met, Worker, Workload};
use crate::{promise, wait::PATIENCE};

pub(super) const NAME: &str = "watch";

const PREFIX: &str = "watched/";
/// Few enough for each to be replaced and deleted over and over.
const KEYS: u64 = 8;
const FOLLOWERS: u64 = 2;
/// One turn in this many follows.
const FOLLOWS: u64 = 3;
/// One of this many such turns begins with another watch, which goes on behind what was told.
const RESUMES: u64 = 3;
/// How long such a turn reads what its watch has to tell.
const FOLLOW: Duration = Duration::from_millis(100);

/// What was acknowledged, and what its followers were told.
#[derive(Default)]
pub(super) struct Watched {
    followers: [tokio::sync::Mutex<Follower>; FOLLOWERS as usize],
    /// Key and revision of each put that was acknowledged.
    puts: Mutex<BTreeSet<(u64, String)>>,
}

#[async_trait]
impl Workload for Watched {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        if worker.below(FOLLOWS) == 0 {
            let number = usize::try_from(worker.below(FOLLOWERS))?;
            let client = worker.client();
            // Another caller may follow it just now.
            if let Ok(mut follower) = self.followers[number].try_lock() {
                if worker.below(RESUMES) == 0 {
                    follower.changes = None;
                }
                let until = Instant::now() + FOLLOW;
                let followed = follower.follow(&client, until).await?;
                worker.met(followed)?;
            }
            return Ok(());
        }
        let key = format!("{PREFIX}{}", worker.below(KEYS));
        let keys = keys(&worker.client());
        if worker.below(4) == 0 {
            return worker.met(keys.delete(&key).await).map(drop);
        }
        let value = json!(worker.fresh());
        let ttl = match worker.rng().random_ratio(1, 4) {
            true => Ttl::After(Duration::from_millis(worker.rng().random_range(100..800))),
            false => Ttl::Never,
        };
        let stored = keys.store_record(&key, &value, ttl).await;
        if let Met::Done(info) = worker.met(stored)? {
            let mut puts = self.puts.lock().expect("nothing panics with it");
            puts.insert((info.revision, key));
        }
        Ok(())
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let listed = keys(client).list_infos(PREFIX).await?;
        let puts = self.puts.lock().expect("nothing panics with it").clone();
        let mut harmed = Vec::new();
        for (follower, number) in self.followers.iter().zip(1..) {
            let mut follower = follower.lock().await;
            let until = Instant::now() + PATIENCE;
            while follower.revision < listed.revision && Instant::now() < until {
                let soon = Instant::now() + FOLLOW;
                // Nothing is broken any more: what a watch still says of that is tried again.
                let _passing = follower.follow(client, soon).await?;
            }
            let told = &follower.told;
            let lost = puts
                .iter()
                .filter(|put| !told.contains(put) && !follower.missed(put.0));
            harmed.extend(lost.map(|(revision, key)| {
                let seen = format!(
                    "watch {number}, at {}, never told the put of {key} at {revision}",
                    follower.revision
                );
                Harmed::new(Harm::Lost, seen)
            }));
            // What has a deadline may have passed it since the list.
            let lasting = listed.items.iter();
            let lasting = lasting.filter(|info| info.expires_at_ms.is_none());
            harmed.extend(lasting.filter_map(|info| {
                let known = follower.alive.get(&info.name).copied();
                let seen = format!(
                    "watch {number} knows {} of {known:?}, a list of {}",
                    info.name, info.revision
                );
                (known != Some(info.revision)).then(|| Harmed::new(Harm::Wrong, seen))
            }));
        }
        Ok(harmed)
    }
}

/// Follows all keys with one watch after another.
#[derive(Default)]
struct Follower {
    changes: Option<Changes>,
    revision: u64,
    /// A watch may go on behind `revision`. Otherwise a list is needed first.
    resumable: bool,
    /// What the watch that is open goes on behind.
    began: u64,
    /// Revision and number of the newest change that was told.
    place: (u64, u32),
    /// Key and revision of each put that was told.
    told: BTreeSet<(u64, String)>,
    /// Revisions of keys that are alive, as far as it was told.
    alive: BTreeMap<String, u64>,
    /// After the first and up to the second of these revisions a list took the place of what a watch could not tell.
    gaps: Vec<(u64, u64)>,
}

impl Follower {
    /// Reads changes until then. Fails as reads fail.
    async fn follow(&mut self, client: &Client, until: Instant) -> Result<Result<(), Error>> {
        let mut changes = match self.changes.take() {
            Some(changes) => changes,
            None => match self.open(client).await {
                Ok(changes) => changes,
                Err(error) => return Ok(Err(error)),
            },
        };
        while let Ok(next) = timeout_at(until, changes.next()).await {
            match next {
                Some(Ok(changed)) => {
                    for change in changed.changes {
                        self.note(change)?;
                    }
                    self.revision = changed.revision;
                }
                // The next turn opens another one, behind a list.
                Some(Err(error)) if error.kind() == ErrorKind::Lapsed => {
                    self.resumable = false;
                    return Ok(Err(error));
                }
                Some(Err(error)) => {
                    self.changes = Some(changes);
                    return Ok(Err(error));
                }
                None => {
                    promise!(false, "a watch at {} ended without an error", self.revision);
                }
            }
        }
        self.changes = Some(changes);
        Ok(Ok(()))
    }

    /// Goes on behind what was told; or as a caller who knows nothing yet, or whom no node can tell what follows.
    async fn open(&mut self, client: &Client) -> Result<Changes, Error> {
        if self.resumable {
            let watch = Watch::keys(Owner::shared(), PREFIX).after(self.revision);
            match client.watch(watch).await {
                Err(error) if error.kind() == ErrorKind::Lapsed => self.resumable = false,
                resumed => {
                    self.began = self.revision;
                    return resumed;
                }
            }
        }
        let listed = keys(client).list_infos(PREFIX).await?;
        let watch = Watch::keys(Owner::shared(), PREFIX).after(listed.revision);
        let changes = client.watch(watch).await?;
        self.gaps.push((self.revision, listed.revision));
        (self.revision, self.began, self.resumable) = (listed.revision, listed.revision, true);
        let alive = listed.items.into_iter();
        self.alive = alive.map(|info| (info.name, info.revision)).collect();
        Ok(changes)
    }

    fn note(&mut self, change: Change) -> Result<()> {
        let (name, place) = (change.info.name, (change.info.revision, change.ordinal));
        // A watch goes on behind a whole revision, and a part of the next one may have been told.
        if self.began < place.0 && place.0 == self.place.0 && place <= self.place {
            return Ok(());
        }
        promise!(
            self.place < place,
            "a watch told the change {place:?} of {name} behind {:?}: twice, or out of order",
            self.place
        );
        self.place = place;
        if change.kind == ChangeKind::Put {
            self.told.insert((place.0, name.clone()));
            self.alive.insert(name, place.0);
        } else {
            self.alive.remove(&name);
        }
        Ok(())
    }

    /// Whether a list took the place of what was to be told of this revision.
    fn missed(&self, revision: u64) -> bool {
        let in_gap = |(after, upto): &(u64, u64)| *after < revision && revision <= *upto;
        self.gaps.iter().any(in_gap)
    }
}

fn keys(client: &Client) -> Keys {
    client.keys(KeyOptions::shared())
}
