//! After the faults: a bare majority must serve, all nodes must come to the same point, and what they say there is read.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use helve_client::{Client, KeyOptions, StateTool as _};
use helve_tests::{
    cluster::Cluster,
    promise::Broken,
    wait::{Look, until},
};
use rand::{rngs::SmallRng, seq::SliceRandom as _};
use serde_json::json;

use super::written::Written;

/// Gets of the scan that are under way at a time.
const GETS: usize = 8;

/// Kills as many nodes as may be away although all was mended, and waits until the others, which are a bare majority, have elected
/// and serve again, each through itself. `clients` begins with one client for each node. Answers how long that took.
///
/// # Errors
///
/// [`Broken`] if they do not, or the node does not come back.
pub(crate) async fn majority_serves(
    cluster: &mut Cluster,
    clients: &[Client],
    rng: &mut SmallRng,
) -> Result<Duration> {
    let seats = cluster.seats();
    let mut away = seats.clone();
    away.shuffle(rng);
    away.truncate((seats.len() - 1) / 2);
    for &seat in &away {
        cluster.kill(seat)?;
    }
    let begun = Instant::now();
    let there = seats.iter().zip(clients);
    for (seat, client) in there.filter(|(seat, _)| !away.contains(seat)) {
        let keys = client.keys(KeyOptions::shared());
        let mut tries = 0;
        let what = format!("node {seat} to serve");
        let served = until(&what, async || {
            tries += 1;
            let value = json!(format!("node {seat} without {away:?}, try {tries}"));
            Look::of(keys.store("liveness", &value).await)
        });
        served.await.map_err(|error| {
            Broken::new(format!(
                "all was mended, but without nodes {away:?} the others do not serve: {error:#}"
            ))
        })?;
    }
    let served = begun.elapsed();
    for seat in away {
        cluster.start(seat)?;
    }
    Ok(served)
}

/// Waits until all nodes are ready, agree on a leader, and have applied the same index.
///
/// # Errors
///
/// [`Broken`] if they do not.
pub(crate) async fn converge(cluster: &mut Cluster) -> Result<()> {
    let converged = async {
        cluster.all_ready().await?;
        cluster.leader().await?;
        let cluster = &*cluster;
        until("all nodes to have applied the same index", async || {
            let mut applied = Vec::new();
            for seat in cluster.seats() {
                match cluster.status(seat).await {
                    Ok(reply) => applied.push(reply.node.unwrap_or_default().applied_index),
                    Err(error) => return Look::NotYet(format!("node {seat}: {error}")),
                }
            }
            if applied.windows(2).all(|pair| pair[0] == pair[1]) {
                return Look::Done(());
            }
            Look::NotYet(format!("{applied:?}"))
        })
        .await
    };
    converged
        .await
        .map_err(|error| Broken::new(format!("the nodes do not come together: {error:#}")).into())
}

/// Reads everything that was acknowledged: every list on every node, and every handle on one of them, what is gone included. All of
/// it is recorded, so the judge compares it. `clients` begins with one client for each node.
///
/// # Errors
///
/// [`Broken`] if a node does not answer: nothing is broken any more.
pub(crate) async fn scan(written: &Written, clients: &[Client], nodes: usize) -> Result<()> {
    for client in &clients[..nodes] {
        for request in written.handle_lists() {
            client
                .list_handles(request)
                .await
                .map_err(|error| silent(&error))?;
        }
        for request in written.key_lists() {
            client
                .list_keys(request)
                .await
                .map_err(|error| silent(&error))?;
        }
    }
    let turns = written.gets().zip(clients[..nodes].iter().cycle());
    let gets = turns.map(|(request, client)| client.call(request));
    stream::iter(gets)
        .buffer_unordered(GETS)
        .map_err(|error| silent(&error))
        .try_for_each(async |_reply| Ok(()))
        .await
}

fn silent(error: &helve_client::Error) -> anyhow::Error {
    Broken::new(format!("a call failed although all was mended: {error}")).into()
}
