//! Lifetimes over a change of leader.

use std::time::Duration;

use anyhow::{Context as _, Result};
use helve_proto::v1::{
    GetReply, GetRequest, HandleStatus, Lifetime, MintReply, MintRequest, RecordInfo, RenewRequest,
};
use helve_tests::{
    caller::lifetime_of,
    cluster::Cluster,
    promise,
    promise::Broken,
    wait::{Look, until},
};

use super::nodes;

/// How often a handle is minted, at most, until one is used in time over a change of leader: mostly
/// it is the first.
const IDLE_TURNS: usize = 5;

pub(crate) async fn mint(cluster: &Cluster, lifetime: Lifetime) -> Result<MintReply> {
    let request = MintRequest {
        store: "carts".to_owned(),
        lifetime: Some(lifetime),
        ..MintRequest::default()
    };
    Ok(cluster.caller(1).mint(request).await?)
}

async fn get(cluster: &Cluster, seat: u64, id: &str) -> Result<GetReply> {
    let request = GetRequest {
        store: "carts".to_owned(),
        id: id.to_owned(),
        ..GetRequest::default()
    };
    Ok(cluster.caller(seat).get(request).await?)
}

async fn kill_the_leader(cluster: &mut Cluster) -> Result<()> {
    let leader = cluster.leader().await?;
    cluster.kill(leader.seat)?;
    cluster.leader().await?;
    Ok(())
}

/// A handle lives until its deadline, on every node, and no longer.
pub(crate) async fn check_expiry(cluster: &Cluster) -> Result<()> {
    let minted = mint(cluster, lifetime_of(Duration::from_millis(500))).await?;
    let info = minted.info.unwrap_or_default();
    for seat in cluster.running() {
        expires_in_time(cluster, seat, &info).await?;
    }
    Ok(())
}

/// Looks at the handle until the clock has passed its deadline.
async fn expires_in_time(cluster: &Cluster, seat: u64, info: &RecordInfo) -> Result<()> {
    let deadline_ms = info.expires_at_ms.unwrap_or_default();
    let passed = until("the clock to pass the deadline", async || {
        let reply = match get(cluster, seat, &info.name).await {
            Ok(reply) => reply,
            Err(error) => return Look::NotYet(error.to_string()),
        };
        let clock_ms = reply.header.as_ref().map_or(0, |header| header.clock_ms);
        match (reply.status(), clock_ms >= deadline_ms) {
            (HandleStatus::Live, false) => Look::NotYet(format!("{reply:?}")),
            (HandleStatus::Expired, true) => Look::Done(Ok(())),
            _ => Look::Done(Err(Broken::new(format!(
                "node {seat} answered {reply:?} for a handle with the deadline {deadline_ms}"
            )))),
        }
    });
    Ok(passed.await??)
}

/// No caller reads or writes, which would let time pass: the leader must have heard of a deadline
/// that is nearer than those before.
#[tokio::test]
async fn time_passes_in_an_idle_cluster_once_a_row_is_due() -> Result<()> {
    let cluster = nodes(3).start().await?;
    mint(&cluster, lifetime_of(Duration::from_secs(3_600))).await?;
    let minted = mint(&cluster, lifetime_of(Duration::from_secs(2))).await?;
    let deadline_ms = minted.info.unwrap_or_default().expires_at_ms;
    for seat in cluster.running() {
        until(
            "the replicated clock to pass the deadline",
            async || match cluster.status(seat).await {
                Ok(status) => match status.node.unwrap_or_default().clock_ms {
                    clock_ms if Some(clock_ms) >= deadline_ms => Look::Done(()),
                    clock_ms => Look::NotYet(format!("{clock_ms} of {deadline_ms:?}")),
                },
                Err(error) => Look::NotYet(error.to_string()),
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_handle_expires_at_its_deadline_on_every_node() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_expiry(&cluster).await
}

#[tokio::test]
async fn a_deadline_stays_where_it_was_when_the_leader_changes() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let minted = mint(&cluster, lifetime_of(Duration::from_secs(3600))).await?;
    let (info, header) = (
        minted.info.unwrap_or_default(),
        minted.header.unwrap_or_default(),
    );
    promise!(
        info.expires_at_ms == Some(header.clock_ms + 3_600_000),
        "an hour from {header:?} is not {info:?}"
    );
    let before = cluster.leader().await?;
    kill_the_leader(&mut cluster).await?;
    promise!(
        cluster.leader().await?.term > before.term,
        "no new term after {before:?}"
    );
    for seat in cluster.running() {
        let reply = get(&cluster, seat, &info.name).await?;
        promise!(
            reply.status() == HandleStatus::Live,
            "a handle died with the leader: {reply:?}"
        );
        promise!(
            reply.info.as_ref() == Some(&info),
            "the handle changed with the leader: {reply:?}, not {info:?}"
        );
        let clock_ms = reply.header.unwrap_or_default().clock_ms;
        promise!(
            clock_ms >= header.clock_ms,
            "the clock went back from {} to {clock_ms}",
            header.clock_ms
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_handle_expires_under_the_next_leader_and_never_before_its_deadline() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let info = mint(&cluster, lifetime_of(Duration::from_secs(3)))
        .await?
        .info
        .unwrap_or_default();
    kill_the_leader(&mut cluster).await?;
    for seat in cluster.running() {
        expires_in_time(&cluster, seat, &info).await?;
    }
    Ok(())
}

/// Mints a handle with an idle time, kills the leader, and uses the handle until the clock has
/// passed its first idle deadline. Answers through which node, and its id. `None`: on a busy
/// machine the election took so long that a use came behind the last deadline that a node named,
/// when the handle is rightly over.
async fn used_over_a_change(cluster: &mut Cluster) -> Result<Option<(u64, String)>> {
    let idle = Lifetime {
        idle_ttl_ms: Some(2_000),
        ..Lifetime::default()
    };
    let minted = mint(cluster, idle).await?.info.unwrap_or_default();
    let first_ms = minted.idle_deadline_ms.unwrap_or_default();
    kill_the_leader(cluster).await?;
    let cluster = &*cluster;
    let seat = cluster.running()[0];
    let mut named_ms = first_ms;
    // Each get renews, so that the handle is alive when its first idle time is over.
    let used = until("the clock to pass the first idle deadline", async || {
        let reply = match get(cluster, seat, &minted.name).await {
            Ok(reply) => reply,
            Err(error) => return Look::NotYet(error.to_string()),
        };
        let clock_ms = reply.header.as_ref().map_or(0, |header| header.clock_ms);
        if reply.status() != HandleStatus::Live {
            return Look::Done(if clock_ms < named_ms {
                Err(Broken::new(format!(
                    "a handle in use died idle before {named_ms}: {reply:?}"
                )))
            } else {
                Ok(false)
            });
        }
        let info = reply.info.as_ref();
        named_ms = info
            .and_then(|info| info.idle_deadline_ms)
            .unwrap_or(named_ms);
        if clock_ms > first_ms {
            Look::Done(Ok(true))
        } else {
            Look::NotYet(format!("{reply:?}"))
        }
    });
    let is_used = used.await??;
    Ok(is_used.then_some((seat, minted.name)))
}

#[tokio::test]
async fn an_idle_handle_that_is_renewed_outlives_its_idle_time_under_the_next_leader() -> Result<()>
{
    let mut cluster = nodes(3).start().await?;
    let mut used = None;
    for _ in 0..IDLE_TURNS {
        used = used_over_a_change(&mut cluster).await?;
        if used.is_some() {
            break;
        }
        cluster.revive()?;
        cluster.all_ready().await?;
    }
    let (seat, id) = used.context("no use renewed it")?;
    // It is not used any more.
    let request = RenewRequest {
        store: "carts".to_owned(),
        id: id.clone(),
        lifetime: Some(lifetime_of(Duration::from_millis(1))),
        ..RenewRequest::default()
    };
    cluster.caller(seat).renew(request).await?;
    until("the handle to expire", async || {
        match get(&cluster, seat, &id).await {
            Ok(reply) if reply.status() == HandleStatus::Expired => Look::Done(()),
            Ok(reply) => Look::NotYet(format!("{reply:?}")),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await
}
