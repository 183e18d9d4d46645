//! Heartbeats get through, whatever else is on its way between the nodes.

use anyhow::{Result, bail};
use futures::future::join_all;
use helve_proto::v1::PutRequest;
use helve_tests::{
    caller::Caller,
    cluster::{Cluster, Equipment},
    fault::network::{Side, Treatment},
    wait::{Look, until},
};

use super::nodes;

/// What a value of the greatest size takes two seconds for: several times as long as followers wait for a heartbeat.
const NARROW: Treatment = Treatment::Limit {
    bytes_per_s: 512 << 10,
};

const VALUE_BYTES: usize = 1 << 20;

/// Values that each node is to put at a time.
const PUTS: usize = 4;

/// Puts large values until the end. What becomes of them is not what this is about: most wait for longer than they may.
async fn flood(caller: &Caller, name: String) -> Result<()> {
    let request = PutRequest {
        store: "cart".to_owned(),
        id: name,
        value: vec![7; VALUE_BYTES].into(),
        ..PutRequest::default()
    };
    loop {
        if let Err(status) = caller.put(request.clone()).await
            && status.code() == tonic::Code::InvalidArgument
        {
            bail!("the flood is none: {status}");
        }
    }
}

/// Waits until so many bytes went over each link from the leader.
async fn filled(cluster: &Cluster, leader: u64, bytes: u64) -> Result<()> {
    let lanes = cluster.network()?.lanes();
    until("the links to be full for a while", async || {
        for follower in cluster.others(leader) {
            let passed = lanes
                .counts(Side::Node(leader), Side::Node(follower))
                .passed;
            if passed < bytes {
                return Look::NotYet(format!("{passed} bytes to node {follower}"));
            }
        }
        Look::Done(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_fill_the_links_between_nodes_cost_the_leader_no_term() -> Result<()> {
    let cluster = nodes(3).on(Equipment::Network).start().await?;
    let before = cluster.leader().await?;
    let lanes = cluster.network()?.lanes();
    for follower in cluster.others(before.seat) {
        let ends = [Side::Node(before.seat), Side::Node(follower)];
        lanes.treat(ends[0], ends[1], NARROW);
        lanes.treat(ends[1], ends[0], NARROW);
    }
    let callers: Vec<_> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
    let floods = callers.iter().enumerate().flat_map(|(node, caller)| {
        (0..PUTS).map(move |number| flood(caller, format!("{node}-{number}")))
    });
    tokio::select! {
        ended = join_all(floods) => bail!("the flood ended: {ended:?}"),
        filled = filled(&cluster, before.seat, 4 << 20) => filled?,
    }
    let after = cluster.leader().await?;
    assert_eq!((after.id, after.term), (before.id, before.term));
    Ok(())
}
