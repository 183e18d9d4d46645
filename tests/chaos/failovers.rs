//! Failovers in a row: the leader is killed, frozen or stopped again and again, and each time the
//! gap without writes is measured.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// At once, by SIGKILL.
    Killed,
    /// It is stopped, and continues later.
    Frozen,
    /// In good order, by SIGTERM: no call may fail.
    Stopped,
}

/// What they came to.
#[derive(Debug, Serialize)]
pub(crate) struct Failovers {
    seed: u64,
    failovers: u64,
    /// The gaps without writes, sorted, by how the leader ended.
    times_ms: BTreeMap<End, Vec<u64>>,
    /// How many took longer than any should.
    hung: usize,
    /// Why it did not hold, if it did not.
    broken: Vec<String>,
}

impl Failovers {
    pub(crate) fn held(&self) -> bool {
        let measured: usize = self.times_ms.values().map(Vec::len).sum();
        self.failovers > 0
            && self.hung == 0
            && self.broken.is_empty()
            && self.failovers == measured as u64
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "the leader is",
            "failovers",
            "median, s",
            "p99, s",
            "longest, s",
        ]);
        for (end, times_ms) in &self.times_ms {
            let quantile = |percent: usize| {
                let last = times_ms.len().saturating_sub(1);
                times_ms
                    .get(last * percent / 100)
                    .map_or_else(String::new, |&ms| seconds(ms))
            };
            table.add_row([
                format!("{end:?}").to_lowercase(),
                times_ms.len().to_string(),
                quantile(50),
                quantile(99),
                quantile(100),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// What went wrong, for people.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = String> {
        let hung = (self.hung > 0).then(|| format!("{} failovers hung", self.hung));
        self.broken.iter().cloned().chain(hung)
    }
}

/// Makes this many failovers on one cluster, and judges the writes between them.
///
/// # Errors
///
/// If one of them does not end at all.
pub(crate) async fn run(count: u64, seed: u64, ends: &[End]) -> Result<Failovers> {
    eprintln!(
        "{count} failovers, seed {seed}: make chaos ARGS=\"--failovers {count} --seed {seed}\""
    );
    ensure!(!ends.is_empty(), "no way for a leader to end: --ends");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut cluster = Setup::new(binary_under_test(), 3).start().await?;
    cluster.hush();
    let history = Arc::new(History::new());
    let endpoints = cluster.endpoints();
    let client = ClusterBuilder::new(&endpoints).build()?;
    let client = history.record(client, 1, &endpoints.join(","));
    let mut writer = Writer {
        keys: client.keys(KeyOptions::shared()),
        written: 0,
        failed: Vec::new(),
    };
    let mut failovers = Failovers {
        seed,
        failovers: count,
        times_ms: BTreeMap::new(),
        hung: 0,
        broken: Vec::new(),
    };
    for number in 1..=count {
        let end = ends[rng.random_range(0..ends.len())];
        writer.failed.clear();
        let took = fail_over(&mut cluster, &mut writer, end)
            .await
            .with_context(|| format!("failover {number} of {count} with seed {seed}"))?;
        if end == End::Stopped {
            failovers.broken.append(&mut writer.failed);
        }
        let times_ms = failovers.times_ms.entry(end).or_default();
        times_ms.push(u64::try_from(took.as_millis())?);
        failovers.hung += usize::from(took > HANG);
        if number % 20 == 0 || number == count {
            let last = seconds(u64::try_from(took.as_millis())?);
            eprintln!("  {number} of {count}, the last took {last} s");
        }
    }
    failovers
        .times_ms
        .values_mut()
        .for_each(|times_ms| times_ms.sort_unstable());
    recovery::converge(&mut cluster).await?;
    for written in 1..=writer.written {
        writer.keys.retrieve(&key(written)).await?;
    }
    match verdict::of(&history) {
        Judged::Held { .. } => {}
        Judged::Broken(harmed) => {
            let harmed = harmed.iter().map(ToString::to_string);
            failovers.broken.extend(harmed);
        }
        Judged::Undecided(why) => failovers.broken.push(format!("undecided: {why}")),
    }
    Ok(failovers)
}

struct Writer {
    keys: Keys,
    written: u64,
    /// What the client said of writes that it gave up.
    failed: Vec<String>,
}

impl Writer {
    /// One write, made until it is acknowledged; how long that took.
    async fn write(&mut self) -> Result<Duration> {
        self.written += 1;
        let key = key(self.written);
        let begun = Instant::now();
        let mut tries = 0;
        let failed = &mut self.failed;
        until("a write to be acknowledged", async || {
            tries += 1;
            let value = json!(format!("{key}, try {tries}"));
            let stored = self.keys.store(&key, &value).await;
            if let Err(error) = &stored {
                failed.push(format!("{key}: {error}"));
            }
            Look::of(stored)
        })
        .await?;
        Ok(begun.elapsed())
    }
}

fn key(written: u64) -> String {
    format!("failover/{written}")
}

/// The gap without writes: from the leader's end to the next acknowledged write. For a leader that
/// stops in good order, the longest write from the signal until it has gone.
async fn fail_over(cluster: &mut Cluster, writer: &mut Writer, end: End) -> Result<Duration> {
    for _ in 0..WRITES {
        writer.write().await?;
    }
    let seat = cluster.leader().await?.seat;
    let begun = Instant::now();
    let took = match end {
        End::Killed => {
            cluster.kill(seat)?;
            writer.write().await?;
            begun.elapsed()
        }
        End::Frozen => {
            cluster.node(seat).freeze()?;
            writer.write().await?;
            begun.elapsed()
        }
        End::Stopped => {
            cluster.node(seat).terminate()?;
            let mut longest = writer.write().await?;
            while cluster.node_mut(seat).ended()?.is_none() {
                longest = longest.max(writer.write().await?);
            }
            longest
        }
    };
    match end {
        End::Killed | End::Stopped => cluster.start(seat)?,
        End::Frozen => cluster.node(seat).thaw()?,
    }
    cluster.all_ready().await?;
    Ok(took)
}
