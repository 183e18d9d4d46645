//! A node that was away for so long that the leader has no log for it any more.

use anyhow::{Context as _, Result};
use futures::future::try_join;
use helve_proto::v1::{Member, NodeStatus};
use helve_tests::{
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};

use super::nodes;

const SNAPSHOT_ENTRIES: usize = 50;
const LOG_KEEP_ENTRIES: u64 = 10;

pub(crate) async fn node_status(cluster: &Cluster, seat: u64) -> Result<NodeStatus> {
    cluster
        .status(seat)
        .await?
        .node
        .context("a status names its node")
}

/// Mints until the leader has thrown away the log that a node would need.
pub(crate) async fn purge_beyond(cluster: &Cluster, ledger: &Ledger, index: u64) -> Result<()> {
    let leader = cluster.leader().await?.seat;
    let through = [cluster.caller(leader)];
    until("the leader to purge its log", async || {
        if let Err(error) = ledger.mint_many(&through, SNAPSHOT_ENTRIES).await {
            return Look::Done(Err(error));
        }
        match node_status(cluster, leader).await {
            Ok(status) if status.purged_index > index => Look::Done(Ok(())),
            Ok(status) => {
                Look::NotYet(format!("purged up to {}, not {index}", status.purged_index))
            }
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await?
}

/// Waits until the leader counts a node, under the id that it has now, among the voters.
pub(crate) async fn votes(cluster: &Cluster, leader: u64, seat: u64) -> Result<()> {
    until("the node to become a voter", async || {
        let (leader, node) =
            match try_join(cluster.status(leader), node_status(cluster, seat)).await {
                Ok(both) => both,
                Err(error) => return Look::NotYet(error.to_string()),
            };
        let votes = |member: &Member| member.voter && (member.seat, member.id) == (seat, node.id);
        if leader.members.iter().any(votes) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{node:?} among {:?}", leader.members))
        }
    })
    .await
}

#[tokio::test]
async fn a_node_that_lags_behind_the_purged_log_installs_a_snapshot_and_loses_nothing() -> Result<()>
{
    let setup = nodes(3).with("HELVE_SNAPSHOT_ENTRIES", &SNAPSHOT_ENTRIES.to_string());
    let mut cluster = setup
        .with("HELVE_LOG_KEEP_ENTRIES", &LOG_KEEP_ENTRIES.to_string())
        .start()
        .await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;

    let leader = cluster.leader().await?.seat;
    let lagging = cluster.others(leader)[0];
    let last = node_status(&cluster, lagging).await?.last_log_index;
    cluster.kill(lagging)?;
    purge_beyond(&cluster, &ledger, last).await?;

    cluster.start(lagging)?;
    cluster.ready(lagging).await?;
    ledger.check(&cluster).await?;
    let status = node_status(&cluster, lagging).await?;
    promise!(
        status.snapshot_index > last,
        "the node caught up without a snapshot: {status:?}"
    );

    // What was installed is on the disk.
    cluster.kill(lagging)?;
    cluster.start(lagging)?;
    cluster.ready(lagging).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_node_whose_disk_was_lost_gets_everything_back_from_the_others() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let through = [cluster.caller(1)];
    ledger.mint_many(&through, SNAPSHOT_ENTRIES).await?;
    let leader = cluster.leader().await?.seat;
    let lost = cluster.others(leader)[0];
    cluster.wipe(lost)?;
    cluster.start(lost)?;
    votes(&cluster, leader, lost).await?;
    ledger.check(&cluster).await?;
    // It votes again: with the old leader gone, it is needed for a majority.
    cluster.kill(leader)?;
    ledger.mint(&[cluster.caller(lost)]).await?;
    ledger.check(&cluster).await
}
