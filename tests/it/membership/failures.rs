//! Leaders that die while members change.

use anyhow::Result;
use helve_proto::v1::RemoveMemberRequest;
use helve_tests::{
    caller::with_deadline,
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};

use super::{members_are, node, place, told, voters};
use crate::nodes;

/// Begins to remove a node on the leader, and waits until the leader's voters are of two minds.
async fn enter_joint(cluster: &Cluster, leader: u64, id: u64) -> Result<()> {
    let channel = cluster.caller(leader).channel();
    let mut client = helve_proto::v1::cluster_service_client::ClusterServiceClient::new(channel);
    let wish = RemoveMemberRequest {
        id,
        even_without_quorum: true,
    };
    let _progress = client.remove_member(with_deadline(wish)).await?;
    until("a joint configuration", async || {
        match cluster.status(leader).await {
            Ok(status) if status.joint => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_leader_killed_in_a_joint_configuration_leaves_none_behind() -> Result<()> {
    let mut cluster = nodes(5).start().await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    for _ in 0..20 {
        ledger.mint(&[cluster.caller(leader)]).await?;
    }
    let others = cluster.others(leader);
    let (frozen, leaving) = (&others[..2], others[3]);
    let leaving_id = node(&cluster, leaving).await?.id;
    // Neither majority of the joint configuration is there without them: it is stored, and not committed.
    for &seat in frozen {
        cluster.node(seat).freeze()?;
    }
    enter_joint(&cluster, leader, leaving_id).await?;
    until(
        "another node to have stored the joint configuration",
        async || match cluster.status(others[2]).await {
            Ok(status) if status.joint => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    cluster.kill(leader)?;
    for &seat in frozen {
        cluster.node(seat).thaw()?;
    }

    // Only a node that has the joint configuration can be elected, and it finishes what the dead one began.
    let staying: Vec<u64> = others[..3].to_vec();
    let status = until("the change to be finished", async || {
        let status = async {
            let leader = cluster.leader_of(staying.clone()).await?;
            cluster.status(leader).await
        };
        match status.await {
            Ok(status) if !status.joint => Look::Done(status),
            other => Look::NotYet(format!("{other:?}")),
        }
    });
    let status = status.await?;
    promise!(
        voters(&status).len() == 4 && !voters(&status).contains(&leaving_id),
        "{status:?}"
    );
    cluster.kill(leaving)?;
    let callers: Vec<_> = staying.iter().map(|&seat| cluster.caller(seat)).collect();
    ledger.mint(&callers).await?;
    cluster.start(leader)?;
    cluster.ready(leader).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn an_addition_goes_on_under_the_next_leader() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let seat = cluster.add_seat()?;
    let (number, peer) = place(&cluster, seat);
    let first = cluster.leader().await?.seat;
    let (seats, others) = ([1, 2, 3], cluster.others(seat));
    let others: Vec<u64> = others.into_iter().filter(|&other| other != first).collect();
    let wish = ["add", "--seat", &number, "--peer", &peer];
    let mut adding = Box::pin(told(&cluster, &seats, &wish));
    // A leader that hangs knows nothing of the next one; the command finds it by itself.
    let next = async {
        waits_for_a_node(&cluster, first).await?;
        cluster.node(first).freeze()?;
        let next = cluster.leader_of(others).await?;
        waits_for_a_node(&cluster, next).await?;
        cluster.node(first).thaw()
    };
    tokio::select! {
        ended = &mut adding => promise!(false, "it ended before the node was there: {ended:?}"),
        next = next => next?,
    }
    drop(adding);
    cluster.start(seat)?;
    super::add(&cluster, seat).await?;
    members_are(&cluster, "four voters", |members| {
        members.len() == 4 && members.iter().all(|member| member.voter)
    })
    .await?;
    ledger.check(&cluster).await
}

async fn waits_for_a_node(cluster: &Cluster, leader: u64) -> Result<()> {
    until("the leader to wait for the node", async || {
        match cluster.status(leader).await {
            Ok(status) if status.change.contains("waiting") => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}
