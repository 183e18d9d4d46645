//! Handles from mint to end: with deadlines and idle times, renewed, replaced, taken, deleted, expired, and asked for by owners
//! that they do not belong to.

use std::{collections::VecDeque, sync::Mutex, time::Duration};

use anyhow::Result;
use helve_client::{Client, HandleOptions, HandleStore, Handles, Resolved, Ttl};
use rand::seq::IteratorRandom as _;
use tonic::async_trait;

use super::{Harmed, Met, Worker, Workload};
use crate::promise;

pub(super) const NAME: &str = "lifecycle";

/// How many of the last minted handles callers choose from: few enough for them to meet.
const RECENT: usize = 12;
/// Deadlines and idle times are drawn below this, so that many end within a run.
const LIFETIME_MAX_MS: u64 = 3000;
/// Ids that callers choose, the same for each owner.
const CHOSEN: u64 = 3;

/// The handles that callers choose from.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    recent: Mutex<VecDeque<Minted>>,
}

#[derive(Debug, Clone)]
struct Minted {
    owner: String,
    id: String,
}

#[async_trait]
impl Workload for Lifecycle {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        match worker.below(10) {
            0..=2 => self.mint(worker).await,
            3 => chosen(worker).await,
            _ => match self.recent(worker) {
                Some(minted) => touch(worker, &minted).await,
                None => self.mint(worker).await,
            },
        }
    }

    /// Nothing besides what the judge says of every answer.
    async fn check(&self, _client: &Client) -> Result<Vec<Harmed>> {
        Ok(Vec::new())
    }
}

impl Lifecycle {
    async fn mint(&self, worker: &mut Worker) -> Result<()> {
        let owner = worker.user();
        let (ttl, value) = (draw_ttl(worker), worker.fresh());
        let minted = sessions(worker, &owner).mint(&value, ttl).await;
        if let Met::Done(id) = worker.met(minted)? {
            let mut recent = self.lock();
            recent.push_back(Minted { owner, id });
            if recent.len() > RECENT {
                recent.pop_front();
            }
        }
        Ok(())
    }

    fn recent(&self, worker: &mut Worker) -> Option<Minted> {
        self.lock().iter().choose(worker.rng()).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Minted>> {
        self.recent
            .lock()
            .expect("no caller panics while it notes what it minted")
    }
}

/// One call for a handle that somebody minted.
async fn touch(worker: &mut Worker, minted: &Minted) -> Result<()> {
    let Minted { owner, id } = minted;
    let handles = sessions(worker, owner);
    let (ttl, value) = (draw_ttl(worker), worker.fresh());
    match worker.below(12) {
        0..=3 => worker.met(handles.resolve(id).await).map(drop),
        4 | 5 => worker.met(handles.renew(id, ttl).await).map(drop),
        6 => worker.met(handles.take(id).await).map(drop),
        7 => worker.met(handles.delete(id).await).map(drop),
        8 => worker.met(handles.put(id, &value, ttl).await).map(drop),
        9 => worker
            .met(handles.put(id, &value, Ttl::Keep).await)
            .map(drop),
        10 => worker.met(handles.len().await).map(drop),
        _ => {
            let found = handles.for_owner("a-stranger").resolve(id).await;
            if let Met::Done(found) = worker.met(found)? {
                let is_unknown = matches!(found, Resolved::Unknown);
                promise!(
                    is_unknown,
                    "a stranger asked for {id} of {owner} and was told {found:?}"
                );
            }
            Ok(())
        }
    }
}

/// One call for an id that several owners use, each for a handle of its own.
async fn chosen(worker: &mut Worker) -> Result<()> {
    let id = format!("desk-{}", worker.below(CHOSEN));
    let handles = sessions(worker, &worker.user());
    let value = worker.fresh();
    match worker.below(4) {
        0 => worker
            .met(handles.put(&id, &value, Ttl::Never).await)
            .map(drop),
        1 => worker.met(handles.delete(&id).await).map(drop),
        _ => worker.met(handles.resolve(&id).await).map(drop),
    }
}

/// A store of sessions, every other time with an idle time.
fn sessions(worker: &mut Worker, owner: &str) -> Handles<String> {
    let options = HandleOptions::shared("sessions")
        .id_prefix("session")
        .owner(owner);
    let options = match worker.below(2) {
        0 => options,
        _ => options.idle_ttl(draw_lifetime(worker)),
    };
    worker.client().handles(options)
}

fn draw_ttl(worker: &mut Worker) -> Ttl {
    match worker.below(4) {
        0 => Ttl::Never,
        _ => Ttl::After(draw_lifetime(worker)),
    }
}

fn draw_lifetime(worker: &mut Worker) -> Duration {
    Duration::from_millis(100 + worker.below(LIFETIME_MAX_MS))
}
