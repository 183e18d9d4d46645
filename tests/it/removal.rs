//! The removal of what has expired, beside callers.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::{try_join, try_join_all};
use helve_proto::v1::{
    BatchStoreReply, BatchStoreRequest, Quotas, SetTenantRequest, StatusReply, StoreItem,
    StoreRequest,
};
use helve_tests::{
    caller::{Caller, lifetime_of, new_identity},
    cluster::Cluster,
    ledger::Ledger,
    promise::Broken,
};

use super::{lifetimes::mint, nodes, upgrade::every_node_says};

/// Handles that expire together.
const TOGETHER: usize = 2_000;
const AT_ONCE: usize = 100;
/// Callers mint this many meanwhile, at most, for each that is removed: Ticks keep up with them.
const MINTS_PER_REMOVAL: usize = 4;
const WRITERS: usize = 8;

/// What callers write removes nothing that has just expired, and Ticks give way to them: but they keep up.
#[tokio::test]
async fn many_handles_that_expire_together_are_removed_while_callers_write() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let soon = || lifetime_of(Duration::from_secs(1));
    let mut deadline_ms = 0;
    for _ in 0..TOGETHER / AT_ONCE {
        let minted = try_join_all((0..AT_ONCE).map(|_| mint(&cluster, soon()))).await?;
        let infos = minted.into_iter().filter_map(|reply| reply.info);
        let deadlines = infos.filter_map(|info| info.expires_at_ms);
        deadline_ms = deadlines.fold(deadline_ms, u64::max);
    }
    let ledger = Ledger::new("orders");
    let is_over = Cell::new(false);
    let callers: Vec<_> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
    let writers = (0..WRITERS).map(async |_| {
        while !is_over.get() {
            ledger.mint(&callers).await?;
        }
        anyhow::Ok(())
    });
    let watched = async {
        every_node_says(&cluster, "all to be due", is_at(deadline_ms)).await?;
        let before = ledger.len();
        every_node_says(&cluster, "what is due to be removed", has_removed_all).await?;
        is_over.set(true);
        let minted = ledger.len() - before;
        ensure!(
            minted <= TOGETHER * MINTS_PER_REMOVAL,
            "{minted} mints until {TOGETHER} handles were removed beside them"
        );
        anyhow::Ok(())
    };
    try_join(watched, try_join_all(writers)).await?;
    ledger.check(&cluster).await
}

/// Whether a node's clock has come to a time.
fn is_at(clock_ms: u64) -> impl Fn(&StatusReply) -> bool {
    move |reply| {
        let node = reply.node.as_ref();
        node.is_some_and(|node| node.clock_ms >= clock_ms)
    }
}

/// Whether nothing that a node has is due.
fn has_removed_all(reply: &StatusReply) -> bool {
    let node = reply.node.as_ref();
    node.is_some_and(|node| node.removal_lag_ms == 0)
}

/// Keys that expire together, in a storm beside many writers.
const KEYS: usize = 20_000;
const KEYS_AT_ONCE: usize = 128;
const BATCHES_AT_ONCE: usize = 8;
/// How long they live at first: all are to be stored before the first is due. If they are not, they
/// are stored again for twice as long.
const STORED_WITHIN: Duration = Duration::from_secs(8);
const MANY_WRITERS: usize = 64;
/// With a quota that is never reached, callers write at least this share of what they write without one while a storm is removed: a
/// hundredth was left of it when each write removed what was due first.
const SHARE: f64 = 0.5;
/// Storms of which one must show that: what else the machine does may fall into one of two that are
/// compared.
const STORMS: usize = 3;

async fn set_quota(cluster: &Cluster, rows: u64) -> Result<()> {
    let request = SetTenantRequest {
        tenant: "default".to_owned(),
        quotas: Some(Quotas {
            rows,
            ..Quotas::default()
        }),
        identity: Some(new_identity()),
    };
    cluster.caller(1).set_tenant(request).await?;
    Ok(())
}

/// Stores keys that expire together, and says when all of them have expired.
async fn store_keys(cluster: &Cluster) -> Result<u64> {
    let caller = cluster.caller(1);
    let mut life = STORED_WITHIN;
    loop {
        let (mut first_ms, mut last_ms, mut now_ms) = (u64::MAX, 0, 0);
        let batches: Vec<usize> = (0..KEYS).step_by(KEYS_AT_ONCE).collect();
        for some in batches.chunks(BATCHES_AT_ONCE) {
            let stored = some.iter().map(|&first| store_batch(&caller, first, life));
            for reply in try_join_all(stored).await? {
                now_ms = now_ms.max(reply.header.unwrap_or_default().clock_ms);
                for deadline_ms in reply.infos.iter().filter_map(|info| info.expires_at_ms) {
                    (first_ms, last_ms) = (first_ms.min(deadline_ms), last_ms.max(deadline_ms));
                }
            }
        }
        if now_ms < first_ms {
            return Ok(last_ms);
        }
        life *= 2;
    }
}

async fn store_batch(caller: &Caller, first: usize, life: Duration) -> Result<BatchStoreReply> {
    let item = |number| StoreItem {
        key: format!("storm/{number:06}"),
        value: "a value".into(),
        lifetime: Some(lifetime_of(life)),
        ..StoreItem::default()
    };
    let request = BatchStoreRequest {
        identity: Some(new_identity()),
        items: (first..first + KEYS_AT_ONCE).map(item).collect(),
        ..BatchStoreRequest::default()
    };
    Ok(caller.batch_store(request).await?)
}

/// How many writes callers made while a storm was removed, and for how long that took.
async fn writes_in_a_storm(cluster: &Cluster, quota_rows: u64) -> Result<(u64, f64)> {
    set_quota(cluster, quota_rows).await?;
    let deadline_ms = store_keys(cluster).await?;
    let (written, is_over) = (Cell::new(0), Cell::new(false));
    let callers: Vec<_> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
    let writers = (0..MANY_WRITERS).map(async |writer| {
        let caller = &callers[writer % callers.len()];
        while !is_over.get() {
            let request = StoreRequest {
                identity: Some(new_identity()),
                key: format!("written/{writer}"),
                value: "a value".into(),
                ..StoreRequest::default()
            };
            caller.store(request).await?;
            written.set(written.get() + 1);
        }
        anyhow::Ok(())
    });
    let watched = async {
        every_node_says(cluster, "all keys to be due", is_at(deadline_ms)).await?;
        let (before, began) = (written.get(), Instant::now());
        every_node_says(cluster, "all keys to be removed", has_removed_all).await?;
        is_over.set(true);
        anyhow::Ok((written.get() - before, began.elapsed().as_secs_f64()))
    };
    let (in_storm, _) = try_join(watched, try_join_all(writers)).await?;
    Ok(in_storm)
}

/// A quota must not make callers remove what has expired before they are served.
#[tokio::test]
async fn a_quota_that_is_never_reached_costs_writers_nothing_in_a_storm() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let mut shares = Vec::new();
    while shares.len() < STORMS {
        let (without, seconds_without) = writes_in_a_storm(&cluster, 0).await?;
        let (with, seconds_with) = writes_in_a_storm(&cluster, 1_000_000_000).await?;
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let share = with as f64 / without as f64;
        println!(
            "{KEYS} keys expired beside {MANY_WRITERS} writers; without a quota {without} writes in {seconds_without:.1} s, with one \
             {with} in {seconds_with:.1} s: {share:.2}"
        );
        if share >= SHARE {
            return Ok(());
        }
        shares.push(share);
    }
    Err(Broken::new(format!(
        "with a quota callers wrote these shares of what they wrote without one: {shares:?}"
    ))
    .into())
}
