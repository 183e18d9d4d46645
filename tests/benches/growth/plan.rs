//! How much, how long, how often.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use clap::Parser;
use serde::Serialize;

use crate::{
    load::Operation,
    measure::caller::{Pace, Schedule},
};

/// What to run.
#[derive(Debug, Clone, Parser, Serialize)]
#[command(about = "Measures what is left of Helve's speed when millions of handles live")]
pub(crate) struct Plan {
    /// Handles that live in the grown cluster
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) live: u64,
    /// Handles that live in the small cluster beside it
    #[arg(long, default_value_t = 10_000)]
    pub(crate) small: u64,
    /// The binary of the second cluster, which then has as many handles as the grown one, and storms of its own; restarts and a new
    /// node are left out. The report calls it small all the same
    #[arg(long, value_name = "BINARY", conflicts_with = "small")]
    pub(crate) beside: Option<PathBuf>,
    /// What callers do, one after the other: mints make the small cluster grow
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        overrides_with = "operations",
        default_value = "get,cold-get,cold-put,mint"
    )]
    pub(crate) operations: Vec<Operation>,
    /// Handles of the grown cluster that expire within one second, twice: without a quota, and with
    /// one that is never reached. 0: no storm
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) storm: u64,
    /// Callers at a time
    #[arg(long, default_value_t = 64)]
    pub(crate) callers: usize,
    /// Callers that fill the clusters and give lifetimes, in transactions of 128 handles
    #[arg(long, default_value_t = 16)]
    pub(crate) fillers: usize,
    /// Rounds of each cluster, in alternation; medians are reported
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// How long one round is, in milliseconds
    #[arg(long, default_value_t = 3_000)]
    round_ms: u64,
    /// How long it runs before that unmeasured, in milliseconds
    #[arg(long, default_value_t = 500)]
    warm_up_ms: u64,
    /// Bytes of each value, a JSON string of random text
    #[arg(long, default_value_t = 256)]
    pub(crate) value_bytes: usize,
    /// An open loop: operations a second, begun at fixed times (to the millisecond) and timed from
    /// then
    #[arg(long)]
    rate: Option<u32>,
    /// Where to write the figures as JSON
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: Option<PathBuf>,
    /// `cargo bench` says this to every benchmark
    #[arg(long, hide = true)]
    #[serde(skip)]
    bench: bool,
}

impl Plan {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0, "at least one round: --rounds");
        ensure!(self.callers > 0, "at least one caller: --callers");
        ensure!(self.fillers > 0, "at least one filler: --fillers");
        ensure!(self.small > 0, "at least one handle: --small");
        ensure!(
            self.storm <= self.live / 4,
            "at most a quarter of --live: --storm"
        );
        ensure!(self.value_bytes >= 32, "at least 32 bytes: --value-bytes");
        Ok(())
    }

    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up_ms)
    }

    pub(crate) fn round(&self) -> Duration {
        Duration::from_millis(self.round_ms)
    }

    /// The pace of what begins now.
    pub(crate) fn pace(&self) -> Pace {
        match self.rate {
            None => Pace::Closed,
            Some(rate) => Pace::Open(Schedule::new(rate).into()),
        }
    }
}
