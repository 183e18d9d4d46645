//! Failovers in a row: the leader is killed or frozen again and again, and each time it is measured how long nobody could write.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use helve_client::{ClusterBuilder, KeyOptions, Keys, StateTool as _};
use helve_tests::{
    cluster::{Cluster, Setup},
    history::History,
    wait::{Look, until},
};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use serde::Serialize;
use serde_json::json;

use super::{
    recovery,
    run::binary_under_test,
    table::seconds,
    verdict::{self, Judged},
};

/// A failover that takes longer hangs. The client's own deadline is half of it.
const HANG: Duration = Duration::from_secs(10);
/// Writes between two failovers.
const WRITES: u64 = 5;

/// How a leader ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    Frozen,
}

/// What they came to.
#[derive(Debug, Serialize)]
pub(crate) struct Failovers {
    seed: u64,
    failovers: u64,
    killed: u64,
    frozen: u64,
    /// How long each took, sorted.
    times_ms: Vec<u64>,
    /// How many took longer than any should.
    hung: usize,
    /// Why it did not hold, if it did not.
    broken: Vec<String>,
}

impl Failovers {
    pub(crate) fn held(&self) -> bool {
        self.failovers > 0
            && self.hung == 0
            && self.broken.is_empty()
            && self.failovers == self.times_ms.len() as u64
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "failovers",
            "killed",
            "frozen",
            "median, s",
            "p99, s",
            "longest, s",
            "hung",
            "broken",
        ]);
        let quantile = |percent: usize| {
            let last = self.times_ms.len().saturating_sub(1);
            self.times_ms
                .get(last * percent / 100)
                .map_or_else(String::new, |&ms| seconds(ms))
        };
        table.add_row([
            self.failovers.to_string(),
            self.killed.to_string(),
            self.frozen.to_string(),
            quantile(50),
            quantile(99),
            quantile(100),
            self.hung.to_string(),
            self.broken.join("; "),
        ]);
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// Makes so many failovers on one cluster, and judges the writes between them.
///
/// # Errors
///
/// If one of them does not end at all.
pub(crate) async fn run(count: u64, seed: u64) -> Result<Failovers> {
    eprintln!(
        "{count} failovers, seed {seed}: make chaos ARGS=\"--failovers {count} --seed {seed}\""
    );
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut cluster = Setup::new(binary_under_test(), 3).start().await?;
    cluster.hush();
    let history = Arc::new(History::new());
    let endpoints = cluster.endpoints();
    let client = ClusterBuilder::new(&endpoints).build()?;
    let client = history.record(client, 1, &endpoints.join(","));
    let mut writer = Writer {
        keys: client.keys(KeyOptions::new()),
        written: 0,
    };
    let mut failovers = Failovers {
        seed,
        failovers: count,
        killed: 0,
        frozen: 0,
        times_ms: Vec::new(),
        hung: 0,
        broken: Vec::new(),
    };
    for number in 1..=count {
        let end = if rng.random_ratio(2, 3) {
            End::Killed
        } else {
            End::Frozen
        };
        let took = fail_over(&mut cluster, &mut writer, end)
            .await
            .with_context(|| format!("failover {number} of {count} with seed {seed}"))?;
        match end {
            End::Killed => failovers.killed += 1,
            End::Frozen => failovers.frozen += 1,
        }
        failovers.times_ms.push(u64::try_from(took.as_millis())?);
        failovers.hung += usize::from(took > HANG);
        if number % 20 == 0 || number == count {
            let last = seconds(u64::try_from(took.as_millis())?);
            eprintln!("  {number} of {count}, the last took {last} s");
        }
    }
    failovers.times_ms.sort_unstable();
    recovery::converge(&mut cluster).await?;
    for written in 1..=writer.written {
        writer.keys.retrieve(&key(written)).await?;
    }
    match verdict::of(&history) {
        Judged::Held { .. } => {}
        Judged::Broken(harmed) => {
            failovers.broken = harmed.iter().map(ToString::to_string).collect();
        }
        Judged::Undecided(why) => failovers.broken.push(format!("undecided: {why}")),
    }
    Ok(failovers)
}

struct Writer {
    keys: Keys,
    written: u64,
}

impl Writer {
    /// One write, made until it is acknowledged.
    async fn write(&mut self) -> Result<()> {
        self.written += 1;
        let key = key(self.written);
        let mut tries = 0;
        until("a write to be acknowledged", async || {
            tries += 1;
            let value = json!(format!("{key}, try {tries}"));
            Look::of(self.keys.store(&key, &value).await)
        })
        .await
    }
}

fn key(written: u64) -> String {
    format!("failover/{written}")
}

/// From the leader's end to the next acknowledged write.
async fn fail_over(cluster: &mut Cluster, writer: &mut Writer, end: End) -> Result<Duration> {
    for _ in 0..WRITES {
        writer.write().await?;
    }
    let leader = cluster.leader().await?;
    let begun = Instant::now();
    match end {
        End::Killed => cluster.kill(leader.seat)?,
        End::Frozen => cluster.node(leader.seat).freeze()?,
    };
    writer.write().await?;
    let took = begun.elapsed();
    match end {
        End::Killed => cluster.start(leader.seat)?,
        End::Frozen => cluster.node(leader.seat).thaw()?,
    }
    cluster.all_ready().await?;
    Ok(took)
}
