//! Keys that replicas of an MCP server share through the cluster, and states that are redeemed once.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use helve_client::{Client, ClusterBuilder};
use helve_request_state::state_codec::{
    ClusterKeys, HardenedCodec, KeyPhase, KeyRing, OperatorKey, Patience, Refusal, SingleUse,
    StateCodec, StateContext,
};
use helve_tests::cluster::Cluster;

use super::nodes;

/// Longer than a change of leader takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// A client for each replica; each begins with another node.
fn clients(cluster: &Cluster) -> Result<Vec<Client>> {
    let mut endpoints = cluster.endpoints();
    let client = |_| {
        endpoints.rotate_left(1);
        let builder = ClusterBuilder::new(endpoints.clone()).deadline(DEADLINE);
        Ok(builder.build()?)
    };
    (0..3).map(client).collect()
}

fn ring(client: &Client) -> Result<KeyRing> {
    let operator = OperatorKey::new([9; 32])?;
    Ok(KeyRing::new(client, "shop", &operator)?)
}

async fn replica(client: &Client) -> Result<HardenedCodec> {
    Ok(HardenedCodec::new(ClusterKeys::open(ring(client)?).await?))
}

/// Every replica opens what every replica seals, and what they sealed before.
async fn all_open(replicas: &[HardenedCodec], sealed: &mut Vec<String>) -> Result<()> {
    let context = StateContext::new().subject("alice");
    for replica in replicas {
        sealed.push(replica.encode("s", &context).await?);
    }
    for replica in replicas {
        for one in &*sealed {
            assert_eq!(replica.decode(one, &context).await?.state, "s");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_one_replica_opens_on_all_through_a_rotation_and_a_leader_change() -> Result<()>
{
    let mut cluster = nodes(3).start().await?;
    let clients = clients(&cluster)?;
    let ring = ring(&clients[0])?;
    let old = ring.add().await?;
    let mut replicas = Vec::new();
    for client in &clients {
        replicas.push(replica(client).await?);
    }
    let mut sealed = Vec::new();
    all_open(&replicas, &mut sealed).await?;
    let new = ring.add().await?;
    assert_eq!(
        (old.phase, new.phase),
        (KeyPhase::Active, KeyPhase::Verifying)
    );
    all_open(&replicas, &mut sealed).await?;
    let leader = cluster.leader().await?;
    cluster.kill(leader.seat)?;
    all_open(&replicas, &mut sealed).await?;
    ring.activate(new.id, Patience::Force).await?;
    all_open(&replicas, &mut sealed).await?;
    // It holds the ring as it is now, and seals under the key that the others may not have picked up.
    replicas.push(replica(&clients[1]).await?);
    all_open(&replicas, &mut sealed).await?;
    cluster.start(leader.seat)?;
    cluster.all_ready().await?;
    ring.remove(old.id, Patience::Force).await?;
    let late = replica(&clients[2]).await?;
    let refused = late.decode(&sealed[0], &StateContext::new()).await;
    assert!(matches!(refused, Err(Refusal::UnknownKey)), "{refused:?}");
    all_open(&[late, replica(&clients[0]).await?], &mut Vec::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_redeemed_once_whichever_replica_is_asked_even_while_the_leader_dies()
-> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let clients = clients(&cluster)?;
    ring(&clients[0])?.add().await?;
    let mut replicas = Vec::new();
    for client in &clients {
        let codec: Arc<dyn StateCodec> = Arc::new(replica(client).await?);
        replicas.push(SingleUse::new(codec, client));
    }
    let context = StateContext::new().subject("alice");
    let mut sealed = Vec::new();
    for _ in 0..20 {
        sealed.push(replicas[0].encode("refund", &context).await?);
    }
    for (number, one) in sealed.iter().enumerate() {
        if number == 10 {
            let leader = cluster.leader().await?;
            cluster.kill(leader.seat)?;
        }
        let tries = replicas.iter().map(|replica| replica.decode(one, &context));
        let outcomes = futures::future::join_all(tries).await;
        let redeemed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(redeemed, 1, "{outcomes:?}");
        let again = replicas[number % 3].decode(one, &context).await;
        assert!(matches!(again, Err(Refusal::Used)), "{again:?}");
    }
    Ok(())
}
