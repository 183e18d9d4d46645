//! The cluster's time comes back to the nodes' wall clocks where those were wrong together and are right again.
//!
//! Request ids bear the time of their first send, so callers of right clocks notice at once: `TOO_EARLY` while the cluster's time is
//! more than a minute behind, `REQUEST_TOO_OLD` while it is more than ten minutes ahead.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use helve_proto::{
    Reason,
    v1::{MintReply, MintRequest},
};
use helve_tests::{
    caller::{new_identity, reason},
    cluster::{Cluster, Equipment},
    fault::{
        clock::{Clock, Reading},
        left_out,
    },
    promise,
    wait::{Look, until},
};

use super::nodes;

/// Three nodes whose clocks are all off by so much from the start, as of machines that were not told the time yet.
async fn started_off(by_s: i64) -> Result<Option<Cluster>> {
    if left_out("clocks of the nodes' own", Clock::missing()).is_some() {
        return Ok(None);
    }
    let mut cluster = nodes(3).on(Equipment::Clocks).prepare().await?;
    set_all(&cluster, Reading::Offset(by_s))?;
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    Ok(Some(cluster))
}

fn set_all(cluster: &Cluster, reading: Reading) -> Result<()> {
    let seats = cluster.seats();
    seats
        .into_iter()
        .try_for_each(|seat| cluster.clock(seat)?.set(reading))
}

/// A mint under a request id of now, by a caller whose clock is right.
async fn mint_now(cluster: &Cluster) -> std::result::Result<MintReply, tonic::Status> {
    let request = MintRequest {
        store: "carts".to_owned(),
        identity: Some(new_identity()),
        ..MintRequest::default()
    };
    let seat = cluster.running()[0];
    cluster.caller(seat).mint(request).await
}

async fn refused_with(cluster: &Cluster, expected: Reason) -> Result<()> {
    let refused = mint_now(cluster).await.err().context("it was minted")?;
    promise!(
        reason(&refused) == Some(expected),
        "refused with {refused:?}, not {expected:?}"
    );
    Ok(())
}

/// Waits until a caller's request id is accepted, and answers the replicated clock then. Meanwhile the clock never falls.
async fn accepted(cluster: &Cluster) -> Result<u64> {
    let mut last_ms = 0;
    until(
        "a request id of now to be accepted",
        async || match mint_now(cluster).await {
            Ok(reply) => {
                let clock_ms = reply.header.unwrap_or_default().clock_ms;
                Look::Done(if clock_ms < last_ms {
                    Err(anyhow::anyhow!(
                        "the clock fell from {last_ms} to {clock_ms}"
                    ))
                } else {
                    Ok(clock_ms)
                })
            }
            Err(refused) => {
                if let Ok(status) = cluster.status(cluster.running()[0]).await {
                    last_ms = last_ms.max(status.node.unwrap_or_default().clock_ms);
                }
                Look::NotYet(format!("{:?} at {last_ms}", reason(&refused)))
            }
        },
    )
    .await?
}

fn now_ms() -> Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis())?)
}

/// What a node warns of.
async fn warning(cluster: &Cluster, seat: u64) -> Result<String> {
    let node = cluster.status(seat).await?.node;
    Ok(node.context("a status names its node")?.warning)
}

#[tokio::test]
async fn request_ids_work_again_after_all_clocks_were_two_hours_behind() -> Result<()> {
    let Some(cluster) = started_off(-7_200).await? else {
        return Ok(());
    };
    refused_with(&cluster, Reason::TooEarly).await?;
    set_all(&cluster, Reading::True)?;
    let clock_ms = accepted(&cluster).await?;
    promise!(
        clock_ms + 60_000 >= now_ms()?,
        "the clock, {clock_ms}, is over a minute behind what a request id says"
    );
    for seat in cluster.seats() {
        let warning = warning(&cluster, seat).await?;
        promise!(
            !warning.contains("set it right"),
            "node {seat}, whose clock is right, warns: {warning}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn request_ids_work_again_after_all_clocks_were_ten_minutes_ahead() -> Result<()> {
    let Some(mut cluster) = started_off(606).await? else {
        return Ok(());
    };
    refused_with(&cluster, Reason::RequestTooOld).await?;
    set_all(&cluster, Reading::True)?;
    until("the nodes to say where the error lies", async || {
        let mut said = Vec::new();
        for seat in cluster.seats() {
            match warning(&cluster, seat).await {
                Ok(warning) => said.push(warning),
                Err(error) => return Look::NotYet(error.to_string()),
            }
        }
        if said.iter().all(|said| said.contains("runs at half speed")) {
            return Look::Done(());
        }
        Look::NotYet(format!("{said:?}"))
    })
    .await?;
    // Neither the next leader nor a whole restart forgets where the time is, or trusts one wall alone.
    let leader = cluster.leader().await?.seat;
    cluster.kill(leader)?;
    cluster.leader().await?;
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    accepted(&cluster).await?;
    Ok(())
}

#[tokio::test]
async fn after_a_whole_restart_one_wild_clock_does_not_lead_time_astray() -> Result<()> {
    let Some(mut cluster) = started_off(0).await? else {
        return Ok(());
    };
    let before = mint_now(&cluster)
        .await?
        .header
        .unwrap_or_default()
        .clock_ms;
    for wild in cluster.seats() {
        for seat in cluster.seats() {
            cluster.kill(seat)?;
        }
        cluster.clock(wild)?.set(Reading::Offset(86_400))?;
        for seat in cluster.seats() {
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        let clock_ms = mint_now(&cluster)
            .await?
            .header
            .unwrap_or_default()
            .clock_ms;
        promise!(
            clock_ms < before + 3_600_000,
            "node {wild}'s clock, a day ahead, took the cluster's time from {before} to {clock_ms}"
        );
        cluster.clock(wild)?.set(Reading::True)?;
    }
    Ok(())
}
