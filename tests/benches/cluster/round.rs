//! Rounds: each product in turn, in another order each time, so that what disturbs the machine disturbs them alike.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use hdrhistogram::Histogram;

use crate::{
    cell::Cell,
    measure::{
        caller::{Pace, Schedule},
        figures::{Figures, Used},
        round::round,
    },
    product::{Product, Running},
    workload::{Caller, Work, Workload, prepare},
};

/// How long, how often, how much.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
    pub(crate) value: String,
    pub(crate) live: usize,
    /// Operations a second of an open loop; without it the loop is closed.
    pub(crate) rate: Option<u32>,
}

/// A product that runs, by its name.
pub(crate) type Contestant = (Product, Box<dyn Running>);

/// One product's callers, and what was prepared for them.
struct Team<'a> {
    product: Product,
    running: &'a dyn Running,
    callers: Vec<Caller>,
    prepared: &'a [String],
    rounds: Vec<Figures>,
}

/// Measures one workload on all products, with each number of callers in turn.
pub(crate) async fn measure(
    plan: &Plan,
    contestants: &[Contestant],
    workload: Workload,
    callers: &[usize],
) -> Result<Vec<Cell>> {
    let mut ready = Vec::new();
    for (product, running) in contestants {
        let prepared = prepare(workload, running.as_ref(), &plan.value, plan.live).await;
        ready.push((
            *product,
            running.as_ref(),
            prepared.with_context(|| product.name())?,
        ));
    }
    let mut cells = Vec::new();
    for &callers in callers {
        cells.extend(measure_with(plan, &ready, workload, callers).await?);
    }
    Ok(cells)
}

async fn measure_with(
    plan: &Plan,
    ready: &[(Product, &dyn Running, Vec<String>)],
    workload: Workload,
    callers: usize,
) -> Result<Vec<Cell>> {
    let mut teams = Vec::new();
    for (product, running, prepared) in ready {
        let team = Team::new(plan, *product, *running, prepared, callers).await;
        teams.push(team.with_context(|| product.name())?);
    }
    for round in 0..plan.rounds {
        teams.rotate_left(1);
        for team in &mut teams {
            let product = team.product;
            let figures = team.round(plan, workload).await;
            let figures = figures.with_context(|| product.name())?;
            eprintln!(
                "{}, {callers} callers, round {}: {} {:.0}/s",
                workload.title(),
                round + 1,
                product.name(),
                figures.operations_per_second
            );
            team.rounds.push(figures);
        }
    }
    teams.sort_by_key(|team| team.product);
    let cell = |team: Team<'_>| Cell::new(workload, callers, team.product, team.rounds);
    Ok(teams.into_iter().filter_map(cell).collect())
}

impl<'a> Team<'a> {
    async fn new(
        plan: &Plan,
        product: Product,
        running: &'a dyn Running,
        prepared: &'a [String],
        callers: usize,
    ) -> Result<Self> {
        let callers = (0..callers).map(async |number| {
            let session = running.session(number).await?;
            let value = plan.value.clone();
            Caller::new(Work {
                number,
                session,
                value,
            })
        });
        Ok(Self {
            product,
            running,
            callers: try_join_all(callers).await?,
            prepared,
            rounds: Vec::new(),
        })
    }

    async fn round(&mut self, plan: &Plan, workload: Workload) -> Result<Figures> {
        self.run(workload, &Pace::Closed, plan.warm_up).await?;
        let syncs = self.running.syncs().await?;
        let pace = plan
            .rate
            .map_or(Pace::Closed, |rate| Pace::Open(Schedule::new(rate).into()));
        let (latencies_us, mut used) = self.run(workload, &pace, plan.time).await?;
        let since = self.running.syncs().await?.zip(syncs);
        used.syncs = since.map(|(after, before)| after.saturating_sub(before));
        Ok(Figures::of(&latencies_us, &used))
    }

    async fn run(
        &mut self,
        workload: Workload,
        pace: &Pace,
        time: Duration,
    ) -> Result<(Histogram<u64>, Used)> {
        let end = Instant::now() + time;
        let prepared = self.prepared;
        round(
            &mut self.callers,
            &self.running.pids(),
            pace,
            async |caller| workload.turn(caller, prepared).await,
            || Instant::now() >= end,
        )
        .await
    }
}
