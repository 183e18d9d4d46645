//! Nodes that join.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use futures::future::{try_join, try_join_all};
use helve_proto::{
    Reason,
    v1::{GetRequest, Role},
};
use helve_tests::{
    caller::reason,
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};

use super::{add, has_role, members_are, place, run, told, voters};
use crate::{nodes, probes::get};

const WRITERS: usize = 4;
/// Writes acknowledged between two changes.
const WRITES: usize = 50;

async fn written_more(ledger: &Ledger) -> Result<()> {
    let enough = ledger.len() + WRITES;
    until("writes to be acknowledged", async || match ledger.len() {
        len if len >= enough => Look::Done(()),
        len => Look::NotYet(format!("{len} of {enough}")),
    })
    .await
}

/// From three to five, and back to three of which two are new: the leader of the moment leaves first.
async fn grow_and_shrink(cluster: &mut Cluster, ledger: &Ledger) -> Result<Vec<u64>> {
    for seat in [4, 5] {
        written_more(ledger).await?;
        cluster.start(seat)?;
        add(cluster, seat).await?;
    }
    written_more(ledger).await?;
    let leader = cluster.leader().await?.seat;
    let leaving = if leader == 1 { [1, 2] } else { [leader, 1] };
    for seat in leaving {
        let id = super::node(cluster, seat).await?.id.to_string();
        told(cluster, &cluster.running(), &["remove", &id]).await?;
        written_more(ledger).await?;
        cluster.kill(seat)?;
    }
    written_more(ledger).await?;
    Ok(leaving.to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_to_five_and_back_under_writes_loses_and_doubles_nothing() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    cluster.add_seat()?;
    cluster.add_seat()?;
    let ledger = Ledger::new("carts");
    let done = AtomicBool::new(false);
    let callers: Vec<_> = (1..=5).map(|seat| cluster.caller(seat)).collect();
    let writers = (0..WRITERS).map(|writer| {
        let mut callers = callers.clone();
        callers.rotate_left(writer);
        let (ledger, done) = (&ledger, &done);
        async move {
            while !done.load(Ordering::Relaxed) {
                ledger.mint(&callers).await?;
            }
            anyhow::Ok(())
        }
    });
    let changes = async {
        let left = grow_and_shrink(&mut cluster, &ledger).await;
        done.store(true, Ordering::Relaxed);
        left
    };
    let (_, left) = try_join(try_join_all(writers), changes).await?;

    let status = members_are(&cluster, "three voters", |members| members.len() == 3).await?;
    promise!(voters(&status).len() == 3, "{status:?}");
    let seats: Vec<u64> = status.members.iter().map(|member| member.seat).collect();
    promise!(
        seats.iter().all(|seat| !left.contains(seat)),
        "{left:?} left, and {seats:?} are there"
    );
    for seat in cluster.running() {
        cluster.ready(seat).await?;
    }
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_node_with_an_unknown_seat_waits_and_says_what_lets_it_in() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let seat = cluster.add_seat()?;
    cluster.start(seat)?;
    let (number, peer) = place(&cluster, seat);
    let command = format!("helve member add --seat {number} --peer {peer}");
    let waiting = until(
        "the node to say what it waits for",
        async || match super::node(&cluster, seat).await {
            Ok(status) if status.warning.contains(&command) => Look::Done(status),
            other => Look::NotYet(format!("{other:?}")),
        },
    );
    let waiting = waiting.await?;
    promise!(
        waiting.role() == Role::Pristine && !waiting.ready,
        "{waiting:?}"
    );
    let (code, page) = get(cluster.listeners(seat).http, "/readyz").await?;
    promise!(code == 503 && page.contains(&command), "{code} {page}");
    promise!(
        get(cluster.listeners(seat).http, "/livez").await?.0 == 200,
        "a node that waits is alive"
    );
    let caller = cluster.caller(seat);
    let call = caller.get(GetRequest {
        store: "carts".to_owned(),
        id: "x".to_owned(),
        ..GetRequest::default()
    });
    let refused = call.await.expect_err("it has nothing to answer from");
    promise!(
        reason(&refused) == Some(Reason::Stopping),
        "{refused}: a client must try another node"
    );
    let status = cluster.status(cluster.leader_of(1..=3).await?).await?;
    promise!(status.members.len() == 3, "it joined by itself: {status:?}");

    add(&cluster, seat).await?;
    cluster.ready(seat).await?;
    members_are(&cluster, "four voters", |members| {
        members.len() == 4 && members.iter().all(|member| member.voter)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_learner_stays_one_until_it_is_said_otherwise() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let seat = cluster.add_seat()?;
    cluster.start(seat)?;
    let (number, peer) = place(&cluster, seat);
    let wish = ["add", "--seat", &number, "--peer", &peer];
    let learner = [&wish[..], &["--learner"]].concat();
    let added = told(&cluster, &[1], &learner).await?;
    let rows = added["members"].as_array().context("no members")?;
    promise!(
        rows.iter()
            .any(|row| row["seat"] == seat && row["voter"] == false),
        "{added}"
    );
    cluster.ready(seat).await?;
    ledger.check(&cluster).await?;
    // It has asked for its seat again and again, and stays what it is: so also for the next leader, after a restart.
    cluster.kill(1)?;
    cluster.start(1)?;
    let status = members_are(&cluster, "a leader", |members| members.len() == 2).await?;
    promise!(voters(&status) == [1], "{status:?}");

    told(&cluster, &[1], &wish).await?;
    members_are(&cluster, "two voters", |members| {
        members.iter().all(|member| member.voter)
    })
    .await?;
    has_role(&cluster, seat, Role::Follower).await?;
    Ok(())
}

#[tokio::test]
async fn an_id_is_never_given_twice() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let seat = cluster.add_seat()?;
    let mut ids = vec![1];
    for _ in 0..3 {
        cluster.start(seat)?;
        let id = add(&cluster, seat).await?;
        promise!(
            ids.iter().all(|&earlier| id > earlier),
            "{id} after {ids:?}"
        );
        ids.push(id);
        told(&cluster, &[1], &["remove", &id.to_string()]).await?;
        let again = run(&cluster, &[1], &["remove", &id.to_string()]).await?;
        promise!(
            again.status.code() == Some(crate::command_line::ABSENT),
            "removed twice: {again:?}"
        );
        cluster.wipe(seat)?;
    }
    Ok(())
}

#[tokio::test]
async fn the_id_of_a_founder_is_never_given_again() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let seat = 3;
    let highest = super::node(&cluster, seat).await?.id;
    cluster.kill(seat)?;
    told(&cluster, &[1, 2], &["remove", &highest.to_string()]).await?;
    cluster.wipe(seat)?;
    cluster.start(seat)?;
    let added = add(&cluster, seat).await?;
    promise!(added > highest, "{added} was given after {highest}");
    Ok(())
}
