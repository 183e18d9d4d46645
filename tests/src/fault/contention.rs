//! One handle that everybody wants to change.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use helve_proto::{
    Reason,
    v1::{GetRequest, PutRequest, WriteStatus},
};
use rand::rngs::SmallRng;
use tokio::{task::JoinSet, time::sleep};
use tonic::{Status, async_trait};

use super::{Fault, Seen, nudge::STORE};
use crate::{
    caller::{Caller, new_identity, reason},
    cluster::Cluster,
    wait::{Look, until},
};

/// The handle: a number, in decimal.
const ID: &str = "hot";
/// Callers that count it up at a time.
const COUNTERS: usize = 8;
/// Between two tries at a node that is away.
const PAUSE: Duration = Duration::from_millis(50);

/// What the counters did.
#[derive(Debug, Default)]
struct Tally {
    /// Increments that were acknowledged.
    counted: AtomicU64,
    /// Those that may have been made.
    unknown: AtomicU64,
    /// Those that another one was faster than.
    conflicts: AtomicU64,
}

/// Many callers that count up one handle of their own, by its revision, until it is healed.
#[derive(Debug, Default)]
pub struct HotHandle {
    running: Option<(JoinSet<()>, Arc<Tally>)>,
}

#[async_trait(?Send)]
impl Fault for HotHandle {
    fn name(&self) -> &'static str {
        "hot-handle"
    }

    async fn strike(&mut self, cluster: &mut Cluster, _: &mut SmallRng) -> Result<Seen> {
        let seats = cluster.seats();
        put(&cluster.caller(seats[0]), 0, None).await?;
        let tally = Arc::<Tally>::default();
        let mut counters = JoinSet::new();
        for number in 0..COUNTERS {
            let caller = cluster.caller(seats[number % seats.len()]);
            counters.spawn(count(caller, Arc::clone(&tally)));
        }
        self.running = Some((counters, Arc::clone(&tally)));
        let (counted, conflicts) = until("contention", async || {
            let counted = tally.counted.load(Ordering::Relaxed);
            match tally.conflicts.load(Ordering::Relaxed) {
                conflicts if conflicts > 20 && counted > 20 => Look::Done((counted, conflicts)),
                conflicts => Look::NotYet(format!("{counted} counted, {conflicts} conflicts")),
            }
        })
        .await?;
        Ok(Seen::one(format!(
            "{counted} counted, {conflicts} conflicts"
        )))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.all_ready().await?;
        let Some((mut counters, tally)) = self.running.take() else {
            return Ok(());
        };
        let under_way = counters.len() as u64;
        counters.shutdown().await;
        let counted = tally.counted.load(Ordering::Relaxed);
        // Those that were stopped in the middle may have counted, too.
        let unknown = tally.unknown.load(Ordering::Relaxed) + under_way;
        let (found, _) = get(&cluster.caller(cluster.seats()[0])).await?;
        ensure!(
            (counted..=counted + unknown).contains(&found),
            "{counted} increments were acknowledged, {unknown} are not known, and the handle says {found}"
        );
        Ok(())
    }
}

async fn count(caller: Caller, tally: Arc<Tally>) {
    loop {
        let Ok((value, revision)) = get(&caller).await else {
            // A node that is away refuses at once.
            sleep(PAUSE).await;
            continue;
        };
        let counter = match put(&caller, value + 1, Some(revision)).await {
            Ok(WriteStatus::Replaced) => &tally.counted,
            Err(status) if reason(&status) == Some(Reason::Conflict) => &tally.conflicts,
            Ok(_) | Err(_) => &tally.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

async fn get(caller: &Caller) -> Result<(u64, u64)> {
    let request = GetRequest {
        store: STORE.to_owned(),
        id: ID.to_owned(),
        ..GetRequest::default()
    };
    let reply = caller.get(request).await?;
    let revision = reply.info.context("the hot handle lives")?.revision;
    Ok((String::from_utf8(reply.value.to_vec())?.parse()?, revision))
}

async fn put(caller: &Caller, value: u64, if_revision: Option<u64>) -> Result<WriteStatus, Status> {
    let request = PutRequest {
        identity: Some(new_identity()),
        store: STORE.to_owned(),
        id: ID.to_owned(),
        value: value.to_string().into(),
        if_revision,
        ..PutRequest::default()
    };
    Ok(caller.put(request).await?.status())
}
