//! The removal of what has expired, beside callers.

use std::{cell::Cell, time::Duration};

use anyhow::{Result, ensure};
use futures::future::{try_join, try_join_all};
use helve_tests::{caller::lifetime_of, ledger::Ledger};

use super::{lifetimes::mint, nodes, upgrade::every_node_says};

/// Handles that expire together.
const TOGETHER: usize = 2_000;
const AT_ONCE: usize = 100;
/// Callers mint so many meanwhile, at most, for each that is removed: Ticks keep up with them.
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
        every_node_says(&cluster, "all to be due", |reply| {
            reply
                .node
                .as_ref()
                .is_some_and(|node| node.clock_ms >= deadline_ms)
        })
        .await?;
        let before = ledger.len();
        every_node_says(&cluster, "what is due to be removed", |reply| {
            reply
                .node
                .as_ref()
                .is_some_and(|node| node.removal_lag_ms == 0)
        })
        .await?;
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
