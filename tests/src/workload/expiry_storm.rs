//! Expiry storms: many handles that all end at the same time, counted and listed while they go. None is there at the end.

use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::Result;
use helve_client::{Client, HandleOptions, HandleStore, Handles, Transacted, Ttl};
use rand::seq::IteratorRandom as _;
use tonic::async_trait;

use super::{Harm, Harmed, Met, Worker, Workload};
use crate::{
    promise,
    wait::{PATIENCE, hold},
};

pub(super) const NAME: &str = "expiry-storm";

/// Handles of one storm, which one transaction mints.
const HANDLES: usize = 60;
/// They all end after one of these, so that storms meet.
const LIFETIMES_MS: [u64; 3] = [500, 1000, 2000];
/// One turn in this many begins a storm.
const STORMS: u64 = 30;
/// Pauses between two looks at what is left of them.
const LOOKS: Duration = Duration::from_millis(100);

/// The ids of all storms.
#[derive(Debug, Default)]
pub(super) struct ExpiryStorm {
    ids: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Workload for ExpiryStorm {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let drops = drops(&worker.client());
        match worker.below(STORMS) {
            0 => self.begin_storm(worker).await,
            1 => worker.met(drops.len().await).map(drop),
            2 => worker.met(drops.list().await).map(drop),
            _ => {
                let drawn = self.ids().iter().choose(worker.rng()).cloned();
                match drawn {
                    Some(id) => worker.met(drops.resolve(&id).await).map(drop),
                    None => Ok(()),
                }
            }
        }
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let drops = drops(client);
        // The last of them may have some time left.
        let begun = Instant::now();
        loop {
            let left = drops.len().await?;
            if left == 0 {
                return Ok(Vec::new());
            }
            if begun.elapsed() > PATIENCE {
                let seen = format!("{left} handles live {PATIENCE:?} after the last storm");
                return Ok(vec![Harmed::new(Harm::Wrong, seen)]);
            }
            hold(LOOKS).await;
        }
    }
}

impl ExpiryStorm {
    async fn begin_storm(&self, worker: &mut Worker) -> Result<()> {
        let client = worker.client();
        let drops = drops(&client);
        let drawn = LIFETIMES_MS.into_iter().choose(worker.rng());
        let lifetime = Duration::from_millis(drawn.expect("there are some"));
        let mut storm = client.transaction();
        for _ in 0..HANDLES {
            storm = storm.mint(&drops, &worker.fresh(), Ttl::After(lifetime));
        }
        match worker.met(storm.commit().await)? {
            Met::Done(Transacted::Committed(committed)) => {
                let infos = (0..HANDLES).filter_map(|number| committed.info(number));
                let names: Vec<_> = infos.map(|info| info.name.clone()).collect();
                promise!(
                    names.len() == HANDLES,
                    "a storm has {} handles",
                    names.len()
                );
                self.ids().extend(names);
            }
            Met::Done(aborted) => promise!(false, "mints were refused: {aborted:?}"),
            Met::NotDone | Met::Unknown => {}
        }
        Ok(())
    }

    fn ids(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.ids
            .lock()
            .expect("no caller panics while it notes the ids")
    }
}

fn drops(client: &Client) -> Handles<String> {
    client.handles(HandleOptions::shared("drops").id_prefix("drop"))
}
