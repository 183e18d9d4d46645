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

/// What goes over each link of a leader before it counts as one that stays.
const SENT_BYTES: u64 = 4 << 20;

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

/// Narrows every link between nodes.
fn narrow(cluster: &Cluster) -> Result<()> {
    for from in cluster.seats() {
        for to in cluster.others(from) {
            let lanes = cluster.network()?.lanes();
            lanes.treat(Side::Node(from), Side::Node(to), NARROW);
        }
    }
    Ok(())
}

/// Waits until one leader was in office while this went over each of its links. On a busy machine one may fall for want of a
/// processor, so another may try; if entries held heartbeats up, none would last for a single value.
async fn lasting_leader(cluster: &Cluster) -> Result<()> {
    let mut since = None;
    until("a leader to last while its links are full", async || {
        let leader = match cluster.leader().await {
            Ok(leader) => leader,
            Err(error) => return Look::Done(Err(error)),
        };
        let passed = match sent_by(cluster, leader.seat) {
            Ok(passed) => passed,
            Err(error) => return Look::Done(Err(error)),
        };
        let now = (leader.id, leader.term);
        match since {
            Some((before, at)) if before == now && passed >= at + SENT_BYTES => Look::Done(Ok(())),
            Some((before, _)) if before == now => Look::NotYet(format!("{passed} bytes sent")),
            _ => {
                since = Some((now, passed));
                Look::NotYet(format!("{now:?} leads since a moment ago"))
            }
        }
    })
    .await?
}

/// What went over the link from a node over which the least went.
fn sent_by(cluster: &Cluster, seat: u64) -> Result<u64> {
    let lanes = cluster.network()?.lanes();
    let others = cluster.others(seat).into_iter();
    let passed = others.map(|to| lanes.counts(Side::Node(seat), Side::Node(to)).passed);
    Ok(passed.min().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_stays_in_office_while_writes_fill_its_links_to_the_others() -> Result<()> {
    let cluster = nodes(3).on(Equipment::Network).start().await?;
    narrow(&cluster)?;
    let callers: Vec<_> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
    let floods = callers.iter().enumerate().flat_map(|(node, caller)| {
        (0..PUTS).map(move |number| flood(caller, format!("{node}-{number}")))
    });
    tokio::select! {
        ended = join_all(floods) => bail!("the flood ended: {ended:?}"),
        lasted = lasting_leader(&cluster) => lasted,
    }
}
