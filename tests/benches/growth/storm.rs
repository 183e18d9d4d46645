//! Many handles that expire within one second: what callers notice while they are removed.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join;
use helve_client::Ttl;
use helve_tests::wait::{Look, hold, until_within};
use serde::Serialize;

use crate::{
    bulk::{BATCH, Tally, transact},
    fill::rest,
    handles::id,
    load::{Load, Measured, Operation},
    measure::figures::Figures,
    nodes::{Nodes, PATIENCE},
    plan::Plan,
};

/// Part of the storm by which it is found out how long the whole of it takes to gather.
const PROBE: u64 = 50;
/// How much longer it may take than that part says.
const SLACK: f64 = 1.5;
/// Between the last handle's lifetime and the common end: what was under way has arrived.
const CALM: Duration = Duration::from_secs(3);
/// How often rows are counted meanwhile.
const COUNTED: Duration = Duration::from_millis(100);

/// A storm, and what callers noticed of it.
#[derive(Debug, Serialize)]
pub(crate) struct Storm {
    /// Handles that expired.
    pub(crate) handles: u64,
    /// From the first to the last of their deadlines.
    pub(crate) spread_ms: u64,
    pub(crate) before: Measured,
    pub(crate) during: Figures,
    /// From the common end until they were removed.
    pub(crate) swept_seconds: f64,
}

impl Storm {
    pub(crate) fn p99_ratio(&self) -> f64 {
        self.during.p99_ms / self.before.median.p99_ms
    }
}

/// Lets the first handles of a cluster expire.
pub(crate) async fn measure(nodes: &Nodes, plan: &Plan) -> Result<Storm> {
    let leader = nodes.cluster.leader().await?.seat;
    // What came before would slow down what the storm is compared with.
    rest(nodes).await?;
    let mut load = Load::new(nodes, &nodes.cluster.seats(), plan)?;
    let before = load.rounds(Operation::Mint, &nodes.pids(), plan).await?;
    let end = Instant::now() + gathering(nodes, plan).await?;
    let tally = Tally::default();
    gather(nodes, plan, &tally, end).await?;
    let handles = tally.handles.get();
    let (first_ms, last_ms) = tally.expire_ms.get().context("some have a lifetime")?;
    let spread_ms = last_ms - first_ms;
    ensure!(
        Instant::now() + CALM / 2 < end,
        "lifetimes came too late: they end within {spread_ms} ms, and have begun to"
    );
    eprintln!("{handles} handles expire within {spread_ms} ms");
    let rows = nodes.rows(leader).await?;
    let minted = load.minted();
    let minted_before = minted.get();
    hold(end.saturating_duration_since(Instant::now())).await;
    let is_over = Cell::new(false);
    let swept = async {
        let swept = until_within(PATIENCE, "the storm to be over", async || {
            hold(COUNTED).await;
            let left = nodes.rows(leader).await;
            // Some may have been minted that nobody was told of yet.
            let mints = minted.get() - minted_before + plan.callers as u64;
            match left {
                Ok(left) if left + handles <= rows + mints => {
                    Look::Done(end.elapsed().as_secs_f64())
                }
                other => Look::NotYet(format!("rows: {other:?}")),
            }
        });
        let seconds = swept.await?;
        is_over.set(true);
        Ok(seconds)
    };
    let (pids, pace) = (nodes.pids(), plan.pace());
    let during = load.until(Operation::Mint, &pids, &pace, || is_over.get());
    let (during, swept_seconds) = try_join(during, swept).await?;
    eprintln!("removed within {swept_seconds:.2} s");
    let live = nodes.count(leader).await?;
    ensure!(
        live == nodes.live - handles,
        "{live} of {} handles live after {handles} have expired",
        nodes.live
    );
    Ok(Storm {
        handles,
        spread_ms,
        before,
        during,
        swept_seconds,
    })
}

/// How long it takes to give all handles of the storm their lifetimes.
async fn gathering(nodes: &Nodes, plan: &Plan) -> Result<Duration> {
    let tally = Tally::default();
    let probe = (plan.storm / PROBE).max(BATCH * plan.fillers as u64);
    let begun = Instant::now();
    let numbers = 0..probe.min(plan.storm);
    transact(
        nodes,
        numbers,
        plan.fillers,
        &tally,
        |transaction, handles, numbers| {
            Some(numbers.fold(transaction, |transaction, number| {
                transaction.renew(handles, &id(number), Ttl::Never)
            }))
        },
    )
    .await?;
    let seconds = begun.elapsed().as_secs_f64() * SLACK;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let parts = plan.storm as f64 / tally.handles.get() as f64;
    let gathering = Duration::from_secs_f64(seconds * parts) + 2 * CALM;
    eprintln!("the storm begins in {:.0} s", gathering.as_secs_f64());
    Ok(gathering)
}

/// Gives the storm's handles what is left until `end`, as long as there is enough of it.
async fn gather(nodes: &Nodes, plan: &Plan, tally: &Tally, end: Instant) -> Result<()> {
    let numbers = 0..plan.storm;
    transact(
        nodes,
        numbers,
        plan.fillers,
        tally,
        |transaction, handles, numbers| {
            let left = end.saturating_duration_since(Instant::now());
            if left < CALM {
                return None;
            }
            Some(numbers.fold(transaction, |transaction, number| {
                transaction.renew(handles, &id(number), Ttl::After(left))
            }))
        },
    )
    .await
}
