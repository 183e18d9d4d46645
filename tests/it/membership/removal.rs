//! Nodes that leave.

use anyhow::Result;
use helve_proto::{
    Reason,
    v1::{MintRequest, Role},
};
use helve_tests::{
    caller::{new_identity, reason},
    cluster::Cluster,
    ledger::Ledger,
    promise,
};

use super::{has_role, members_are, node, place, told};
use crate::{nodes, probes::get};

/// Starts of a removed node of which one must leave the leader in office: a busy machine may depose one by itself.
const STARTS: usize = 3;

/// The removed node says so everywhere, and serves nothing.
async fn is_out(cluster: &Cluster, seat: u64) -> Result<()> {
    let status = has_role(cluster, seat, Role::Removed).await?;
    promise!(
        !status.ready && status.warning.contains("helve member add"),
        "{status:?}"
    );
    let (code, page) = get(cluster.listeners(seat).http, "/readyz").await?;
    promise!(code == 503 && page.contains("removed"), "{code} {page}");
    let mint = MintRequest {
        identity: Some(new_identity()),
        store: "carts".to_owned(),
        ..MintRequest::default()
    };
    let refused = cluster.caller(seat).mint(mint).await;
    let refused = refused.expect_err("a removed node serves nothing");
    promise!(reason(&refused) == Some(Reason::Stopping), "{refused}");
    Ok(())
}

/// Who leads these nodes, and in which term.
async fn led_by(cluster: &Cluster, seats: &[u64]) -> Result<(u64, u64)> {
    let leader = cluster.leader_of(seats.to_vec()).await?;
    Ok((leader, node(cluster, leader).await?.term))
}

/// Starts a removed node again under its old data: it stays out, and the others do not even notice.
async fn stays_out(cluster: &mut Cluster, seat: u64, ledger: &Ledger) -> Result<()> {
    let others = cluster.others(seat);
    let callers: Vec<_> = others.iter().map(|&other| cluster.caller(other)).collect();
    let mut led = Vec::new();
    let leader = loop {
        let before = led_by(cluster, &others).await?;
        cluster.start(seat)?;
        is_out(cluster, seat).await?;
        for _ in 0..20 {
            ledger.mint(&callers).await?;
        }
        let after = led_by(cluster, &others).await?;
        if before == after {
            break after.0;
        }
        led.push((before, after));
        promise!(
            led.len() < STARTS,
            "a removed node disturbed the others: who led in which term before and after was {led:?}"
        );
        cluster.kill(seat)?;
    };
    let members = cluster.status(leader).await?.members;
    promise!(
        members.iter().all(|member| member.seat != seat),
        "it came back: {members:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_leader_that_is_removed_answers_and_another_takes_over() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?;
    ledger.mint(&[cluster.caller(leader.seat)]).await?;
    let removed = told(
        &cluster,
        &cluster.seats(),
        &["remove", &leader.id.to_string()],
    )
    .await?;
    promise!(
        removed["members"]
            .as_array()
            .is_some_and(|rows| rows.len() == 2)
            && removed["leader_id"] != leader.id,
        "{removed}"
    );
    is_out(&cluster, leader.seat).await?;
    cluster.kill(leader.seat)?;
    stays_out(&mut cluster, leader.seat, &ledger).await?;
    cluster.kill(leader.seat)?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_node_that_was_removed_while_it_was_down_stays_out_and_harms_nothing() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?;
    let seat = cluster.others(leader.seat)[0];
    let id = node(&cluster, seat).await?.id.to_string();
    cluster.kill(seat)?;
    told(&cluster, &cluster.others(seat), &["remove", &id]).await?;
    stays_out(&mut cluster, seat, &ledger).await?;
    // It remembers, whichever node it can ask.
    cluster.kill(seat)?;
    stays_out(&mut cluster, seat, &ledger).await?;

    // With an empty directory it is a new node, which an operator may let in.
    cluster.wipe(seat)?;
    cluster.start(seat)?;
    let added = super::add(&cluster, seat).await?;
    promise!(added > 3, "{added} is no new id");
    cluster.ready(seat).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_dead_node_is_replaced_by_one_at_another_seat() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    let leader = cluster.leader().await?.seat;
    let dead = cluster.others(leader)[0];
    let id = node(&cluster, dead).await?.id;
    cluster.kill(dead)?;
    for _ in 0..20 {
        ledger.mint(&[cluster.caller(leader)]).await?;
    }
    let seat = cluster.add_seat()?;
    cluster.start(seat)?;
    let (number, peer) = place(&cluster, seat);
    let dead_id = id.to_string();
    let wish = ["replace", &dead_id, "--seat", &number, "--peer", &peer];
    let replaced = told(&cluster, &[leader], &wish).await?;
    cluster.ready(seat).await?;
    members_are(
        &cluster,
        "three voters, the dead one not among them",
        |members| {
            members.len() == 3 && members.iter().all(|member| member.voter && member.id != id)
        },
    )
    .await?;
    ledger.check(&cluster).await?;
    // Said again, it is found done.
    promise!(
        told(&cluster, &[leader], &wish).await?["node_id"] == replaced["node_id"],
        "replaced twice"
    );

    // The new one is needed for a majority, and holds everything.
    let other = cluster
        .others(leader)
        .into_iter()
        .find(|&s| s != dead && s != seat);
    cluster.kill(other.unwrap_or(leader))?;
    ledger.mint(&[cluster.caller(seat)]).await?;
    ledger.check(&cluster).await
}
