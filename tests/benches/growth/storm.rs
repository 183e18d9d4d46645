//! Many handles that expire within one second: what callers notice while they are removed. Once without a quota, and once with a quota
//! of rows that is never reached: it must cost callers nothing.

use std::{
    cell::Cell,
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join;
use helve_client::Ttl;
use helve_proto::v1::{Quotas, SetTenantRequest};
use helve_tests::{
    caller::new_identity,
    wait::{Look, hold, until_within},
};
use serde::Serialize;

use crate::{
    bulk::{BATCH, Tally, transact},
    fill::rest,
    handles::id,
    load::{Load, Measured, Operation},
    measure::figures::Figures,
    nodes::{Nodes, PATIENCE, Size},
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
/// Far more rows than any run makes.
const NEVER_REACHED: u64 = 1_000_000_000_000;

/// A storm, and what callers noticed of it.
#[derive(Debug, Serialize)]
pub(crate) struct Storm {
    /// The tenant's quota of rows meanwhile; 0: none.
    pub(crate) quota_rows: u64,
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
    /// In words.
    pub(crate) fn quota(&self) -> &'static str {
        match self.quota_rows {
            0 => "no quota",
            _ => "a quota of rows",
        }
    }

    /// Of which cluster, and under which quota.
    pub(crate) fn title(&self) -> String {
        format!("{}, {}", self.before.size.name(), self.quota())
    }

    pub(crate) fn p99_ratio(&self) -> f64 {
        self.during.p99_ms / self.before.median.p99_ms
    }
}

/// What a quota that is never reached costs callers in a storm.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct QuotaCost {
    /// Operations a second with it, as a multiple of those without.
    pub(crate) operations_ratio: f64,
    /// The 99th percentile with it, as a multiple of that without.
    pub(crate) p99_ratio: f64,
}

impl QuotaCost {
    /// Of a storm of the grown cluster without a quota, and one with it.
    pub(crate) fn of(storms: &[Storm]) -> Option<Self> {
        let grown = |storm: &&Storm| storm.before.size == Size::Grown;
        let mut storms = storms.iter().filter(grown);
        let without = storms.find(|storm| storm.quota_rows == 0)?;
        let with = storms.find(|storm| storm.quota_rows > 0)?;
        let operations = |storm: &Storm| storm.during.operations_per_second;
        Some(Self {
            operations_ratio: operations(with) / operations(without),
            p99_ratio: with.during.p99_ms / without.during.p99_ms,
        })
    }
}

/// Lets the first handles of a cluster expire without a quota, and as many behind them with one.
/// Does nothing if none are to.
pub(crate) async fn measure(nodes: &Nodes, plan: &Plan, storms: &mut Vec<Storm>) -> Result<()> {
    if plan.storm == 0 {
        return Ok(());
    }
    for (turn, quota_rows) in [(0, 0), (1, NEVER_REACHED)] {
        let first = turn * plan.storm;
        set_quota(nodes, quota_rows).await?;
        storms.push(storm(nodes, plan, first..first + plan.storm, quota_rows).await?);
    }
    set_quota(nodes, 0).await
}

async fn set_quota(nodes: &Nodes, rows: u64) -> Result<()> {
    let leader = nodes.cluster.leader().await?.seat;
    let request = SetTenantRequest {
        tenant: "default".to_owned(),
        quotas: Some(Quotas {
            rows,
            ..Quotas::default()
        }),
        identity: Some(new_identity()),
    };
    nodes.cluster.caller(leader).set_tenant(request).await?;
    Ok(())
}

/// Lets handles of these numbers expire. All before them have expired.
async fn storm(nodes: &Nodes, plan: &Plan, numbers: Range<u64>, quota_rows: u64) -> Result<Storm> {
    let leader = nodes.cluster.leader().await?.seat;
    // What came before would slow down what the storm is compared with.
    rest(nodes).await?;
    let mut load = Load::new(nodes, &nodes.cluster.seats(), plan)?;
    let before = load.rounds(Operation::Mint, &nodes.pids(), plan).await?;
    let end = Instant::now() + gathering(nodes, plan, &numbers).await?;
    let tally = Tally::default();
    gather(nodes, plan, numbers.clone(), &tally, end).await?;
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
            // Some may have been minted that no caller was told of yet.
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
    let left = nodes.live - numbers.start - handles;
    ensure!(
        live == left,
        "{live} handles live after {handles} have expired, and not {left}"
    );
    Ok(Storm {
        quota_rows,
        handles,
        spread_ms,
        before,
        during,
        swept_seconds,
    })
}

/// How long it takes to give all handles of the storm their lifetimes.
async fn gathering(nodes: &Nodes, plan: &Plan, storm: &Range<u64>) -> Result<Duration> {
    let tally = Tally::default();
    let probe = (plan.storm / PROBE).max(BATCH * plan.fillers as u64);
    let begun = Instant::now();
    let numbers = storm.start..storm.start + probe.min(plan.storm);
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
async fn gather(
    nodes: &Nodes,
    plan: &Plan,
    numbers: Range<u64>,
    tally: &Tally,
    end: Instant,
) -> Result<()> {
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
