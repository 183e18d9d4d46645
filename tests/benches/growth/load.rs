//! Callers, and what they do in rounds: mint, or get any of the handles that live.

use std::{
    cell::Cell,
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use helve_client::{HandleOptions, HandleStore as _, Handles, Resolved, Ttl};
use serde::Serialize;

use crate::{
    cold::Cold,
    handles::{LIVE, MINTED, any, value},
    measure::{
        caller::{Caller, Pace},
        figures::Figures,
        round::round,
    },
    nodes::{Nodes, Size},
    plan::Plan,
};

/// What callers do. The numbers are those of the other benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    /// W1.
    Mint,
    /// W2.
    Get,
    /// The same, with tables that only the disk and the node's own cache hold.
    ColdGet,
    /// Writes of any of the handles that live, which each node reads before, with such tables.
    ColdPut,
}

impl Operation {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mint => "W1 mint",
            Self::Get => "W2 get of any live handle",
            Self::ColdGet => "W2 get of any live handle, from the disk",
            Self::ColdPut => "put of any live handle, from the disk",
        }
    }

    fn is_cold(self) -> bool {
        matches!(self, Self::ColdGet | Self::ColdPut)
    }
}

/// Rounds of one cluster, or one stretch of it.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) size: Size,
    pub(crate) operation: Operation,
    pub(crate) median: Figures,
    pub(crate) rounds: Vec<Figures>,
}

/// What one caller calls: another node each time.
struct Calls {
    nodes: Vec<Stores>,
    next: usize,
    live: u64,
    value_bytes: usize,
    minted: Rc<Cell<u64>>,
}

/// The stores of a cluster, through one node.
#[derive(Clone)]
struct Stores {
    live: Handles<String>,
    minted: Handles<String>,
}

impl Calls {
    fn next(&mut self) -> &Stores {
        self.next += 1;
        &self.nodes[self.next % self.nodes.len()]
    }

    async fn mint(&mut self) -> Result<()> {
        let value = value(self.value_bytes);
        self.next().minted.mint(&value, Ttl::Never).await?;
        self.minted.update(|minted| minted + 1);
        Ok(())
    }

    async fn get(&mut self) -> Result<()> {
        let id = any(self.live);
        match self.next().live.resolve(&id).await? {
            Resolved::Live(_) => Ok(()),
            lost => bail!("{id} is lost: {lost:?}"),
        }
    }

    async fn put(&mut self) -> Result<()> {
        let (id, value) = (any(self.live), value(self.value_bytes));
        self.next().live.put(&id, &value, Ttl::Never).await?;
        Ok(())
    }
}

/// All callers of one cluster.
pub(crate) struct Load {
    size: Size,
    callers: Vec<Caller<Calls>>,
    minted: Rc<Cell<u64>>,
    /// Of the nodes' data.
    directories: Vec<PathBuf>,
}

impl Load {
    /// Callers that call through the nodes in these seats.
    pub(crate) fn new(nodes: &Nodes, seats: &[u64], plan: &Plan) -> Result<Self> {
        let stores = seats.iter().map(|&seat| Stores {
            live: nodes.client(seat).handles(HandleOptions::shared(LIVE)),
            minted: nodes.client(seat).handles(HandleOptions::shared(MINTED)),
        });
        let stores: Vec<Stores> = stores.collect();
        let directories = seats.iter();
        let directories = directories.map(|&seat| nodes.cluster.data_directory(seat));
        let minted = Rc::new(Cell::new(0));
        let caller = |number| {
            Caller::new(Calls {
                nodes: stores.clone(),
                next: number,
                live: nodes.live,
                value_bytes: plan.value_bytes,
                minted: Rc::clone(&minted),
            })
        };
        Ok(Self {
            size: nodes.size,
            callers: (0..plan.callers).map(caller).collect::<Result<_>>()?,
            minted,
            directories: directories.collect(),
        })
    }

    /// Mints that were acknowledged.
    pub(crate) fn minted(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.minted)
    }

    /// Until it is over.
    pub(crate) async fn until(
        &mut self,
        operation: Operation,
        pids: &[u32],
        pace: &Pace,
        is_over: impl Fn() -> bool,
    ) -> Result<Figures> {
        let turn = async |caller: &mut Caller<Calls>| match operation {
            Operation::Mint => caller.timed(async |calls| calls.mint().await).await,
            Operation::Get | Operation::ColdGet => {
                caller.timed(async |calls| calls.get().await).await
            }
            Operation::ColdPut => caller.timed(async |calls| calls.put().await).await,
        };
        let measured = round(&mut self.callers, pids, pace, turn, is_over).await;
        let (latencies_us, used) = measured.with_context(|| operation.title())?;
        Ok(Figures::of(&latencies_us, &used))
    }

    /// For so long.
    async fn during(
        &mut self,
        operation: Operation,
        pids: &[u32],
        pace: &Pace,
        time: Duration,
    ) -> Result<Figures> {
        let end = Instant::now() + time;
        self.until(operation, pids, pace, || Instant::now() >= end)
            .await
    }

    /// One round, after a warm-up.
    pub(crate) async fn round(
        &mut self,
        operation: Operation,
        pids: &[u32],
        plan: &Plan,
    ) -> Result<Figures> {
        let cold = match operation.is_cold() {
            true => Some(Cold::start(self.directories.clone())?),
            false => None,
        };
        self.during(operation, pids, &Pace::Closed, plan.warm_up())
            .await?;
        let pace = plan.pace();
        let figures = self.during(operation, pids, &pace, plan.round()).await?;
        cold.map_or(Ok(()), Cold::end)?;
        eprintln!(
            "{}, {}: {:.0}/s, p99 {:.2} ms",
            operation.title(),
            self.size.name(),
            figures.operations_per_second,
            figures.p99_ms
        );
        Ok(figures)
    }

    /// All rounds of a plan, one after the other.
    pub(crate) async fn rounds(
        &mut self,
        operation: Operation,
        pids: &[u32],
        plan: &Plan,
    ) -> Result<Measured> {
        let mut rounds = Vec::new();
        for _ in 0..plan.rounds {
            rounds.push(self.round(operation, pids, plan).await?);
        }
        Measured::new(self.size, operation, rounds)
    }
}

impl Measured {
    fn new(size: Size, operation: Operation, rounds: Vec<Figures>) -> Result<Self> {
        Ok(Self {
            size,
            operation,
            median: Figures::median(&rounds).context("there are rounds")?,
            rounds,
        })
    }
}

/// All rounds of a plan on both clusters, in alternation, so that what disturbs the machine disturbs them alike.
pub(crate) async fn compare(
    plan: &Plan,
    clusters: [&Nodes; 2],
    operation: Operation,
) -> Result<Vec<Measured>> {
    let mut sides = Vec::new();
    for nodes in clusters {
        let load = Load::new(nodes, &nodes.cluster.seats(), plan)?;
        sides.push((load, nodes.pids(), Vec::new()));
    }
    for _ in 0..plan.rounds {
        sides.reverse();
        for (load, pids, rounds) in &mut sides {
            rounds.push(load.round(operation, pids, plan).await?);
        }
    }
    sides.sort_by_key(|(load, ..)| load.size);
    let measured = |(load, _, rounds): (Load, _, _)| Measured::new(load.size, operation, rounds);
    sides.into_iter().map(measured).collect()
}
