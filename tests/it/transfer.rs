//! A leader that is told to stop hands leadership on, and no caller notices.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Result;
use futures::future::{try_join, try_join_all};
use helve_client::{ClusterBuilder, HandleOptions, HandleStore, Handles, Ttl};
use helve_proto::v1::TransferLeaderRequest;
use helve_tests::{
    cluster::Cluster,
    promise,
    wait::{Look, until},
};

use super::nodes;

const WRITERS: usize = 4;
/// Acknowledged writes before each stop, and after the last.
const WRITES: usize = 100;

#[tokio::test]
async fn leadership_goes_to_the_voter_that_is_asked_for() -> Result<()> {
    let cluster = nodes(3).start().await?;
    // It is refused while the heir lags, or if that does not take over in time.
    let (leader, heir, heir_id, reply) = until("a transfer to be carried out", async || {
        let asked = async {
            let leader = cluster.leader().await?;
            let heir = cluster.others(leader.seat)[1];
            let to = cluster.status(heir).await?.node.unwrap_or_default().id;
            let caller = cluster.caller(leader.seat);
            let reply = caller.transfer_leader(TransferLeaderRequest { to }).await?;
            anyhow::Ok((leader, heir, to, reply))
        };
        Look::of(asked.await)
    })
    .await?;
    promise!(
        reply.leader_id == heir_id && reply.term > leader.term,
        "asked for {heir_id}, got {reply:?}"
    );
    assert_eq!(cluster.leader().await?.seat, heir);
    Ok(())
}

/// The ids that writers were told, while they write.
struct Writers {
    ids: Mutex<Vec<String>>,
    done: AtomicBool,
}

impl Writers {
    async fn write(&self, carts: &Handles<String>) -> Result<()> {
        while !self.done.load(Ordering::Relaxed) {
            let id = carts.mint(&"tea".to_owned(), Ttl::Never).await?;
            self.told().push(id);
        }
        Ok(())
    }

    async fn have_written_more(&self) -> Result<()> {
        let enough = self.told().len() + WRITES;
        until("writes to be acknowledged", async || {
            match self.told().len() {
                count if count >= enough => Look::Done(()),
                count => Look::NotYet(format!("{count} of {enough}")),
            }
        })
        .await
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.ids
            .lock()
            .expect("no writer panics while it is told an id")
    }
}

/// Stops each node in turn, the leader of the moment first, and starts it again.
async fn restart_all(cluster: &mut Cluster, writers: &Writers) -> Result<()> {
    let mut left = cluster.seats();
    while !left.is_empty() {
        writers.have_written_more().await?;
        let leader = cluster.leader().await?.seat;
        let next = left.iter().position(|&seat| seat == leader).unwrap_or(0);
        let seat = left.remove(next);
        cluster.node(seat).terminate()?;
        let status = cluster.node_mut(seat).stopped().await?;
        promise!(status.success(), "node {seat} stopped with {status}");
        cluster.start(seat)?;
        cluster.ready(seat).await?;
    }
    writers.have_written_more().await?;
    writers.done.store(true, Ordering::Relaxed);
    Ok(())
}

#[tokio::test]
async fn restarting_every_node_in_turn_is_no_error_for_any_caller() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let client = ClusterBuilder::new(cluster.endpoints()).build()?;
    let carts = client.handles::<String>(HandleOptions::shared("carts"));
    let writers = Writers {
        ids: Mutex::default(),
        done: AtomicBool::new(false),
    };
    let writing = try_join_all((0..WRITERS).map(|_| writers.write(&carts)));
    try_join(writing, restart_all(&mut cluster, &writers)).await?;

    let mut told = writers.told().clone();
    let mut there: Vec<_> = carts
        .list()
        .await?
        .items
        .into_iter()
        .map(|info| info.name)
        .collect();
    told.sort();
    there.sort();
    promise!(
        told == there,
        "{} handles were acknowledged, {} are there",
        told.len(),
        there.len()
    );
    Ok(())
}
