//! Many handles that expire at once, while leadership changes hands.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::join_all;
use helve_proto::v1::{CountRequest, MintRequest};
use rand::rngs::SmallRng;
use tokio::time::{Instant, sleep_until};
use tonic::async_trait;

use super::{Fault, Seen, Target, kill::kill};
use crate::{
    caller::{Caller, lifetime_of, new_identity},
    cluster::Cluster,
    wait::{Look, until},
};

/// The storm's handles are in a store of their own.
const STORE: &str = "fault-storm";
/// From the first mint to the moment at which all expire.
const GATHERING: Duration = Duration::from_secs(6);
/// So long before that moment the leader is killed.
const BEFORE: Duration = Duration::from_millis(500);
/// Mints under way at a time.
const MINTERS: usize = 64;
/// Least number of handles of a storm.
const HANDLES_MIN: usize = 200;

/// Handles of its own that all expire in one moment, just when the leader has been killed.
#[derive(Debug, Default)]
pub struct ExpiryStorm {
    down: Vec<u64>,
}

#[async_trait(?Send)]
impl Fault for ExpiryStorm {
    fn name(&self) -> &'static str {
        "expiry-storm"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let expiry = Instant::now() + GATHERING;
        let callers: Vec<Caller> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
        let minters = (0..MINTERS).map(|number| gather(&callers[number % callers.len()], expiry));
        let minted: usize = join_all(minters).await.into_iter().sum();
        ensure!(
            minted >= HANDLES_MIN,
            "only {minted} handles were minted in time: no storm"
        );
        let leader = Target::Leader.pick(cluster, rng).await?;
        sleep_until(expiry - BEFORE).await;
        let mut seen = Seen::one(format!("{minted} handles expire at once"));
        for seat in leader {
            seen.add(kill(cluster, seat)?);
            self.down.push(seat);
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        for seat in self.down.drain(..) {
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        for seat in cluster.running() {
            calm(&cluster.caller(seat)).await?;
        }
        Ok(())
    }
}

/// Mints handles that expire at `expiry`, as long as there is time. Answers how many.
async fn gather(caller: &Caller, expiry: Instant) -> usize {
    let mut minted = 0;
    loop {
        let left = expiry.saturating_duration_since(Instant::now());
        if left < 4 * BEFORE {
            return minted;
        }
        let request = MintRequest {
            identity: Some(new_identity()),
            store: STORE.to_owned(),
            lifetime: Some(lifetime_of(left)),
            ..MintRequest::default()
        };
        // What failed is no part of the storm, or a part that is not counted.
        minted += usize::from(caller.mint(request).await.is_ok());
    }
}

/// Waits until a node counts none of the storm's handles.
async fn calm(caller: &Caller) -> Result<()> {
    until("all handles of the storm to expire", async || {
        let request = CountRequest {
            store: STORE.to_owned(),
            owner: None,
        };
        match caller.count(request).await {
            Ok(reply) if reply.live == 0 => Look::Done(()),
            Ok(reply) => Look::NotYet(format!("{} are live", reply.live)),
            Err(status) => Look::NotYet(status.to_string()),
        }
    })
    .await
}
