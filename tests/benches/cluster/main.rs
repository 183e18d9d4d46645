//! Helve and what users would pick instead, under the same load on the same machine, with what each promises.
//!
//! Products are started and configured here, in temporary directories and on loopback; one that this machine lacks is left out, and
//! the report says so. All run at the same time, and take turns.

mod cell;
mod daemon;
mod etcd;
mod floor;
mod helve;
mod id;
#[path = "../measure/mod.rs"]
mod measure;
mod plot;
mod postgres;
mod product;
mod redis;
mod report;
mod round;
mod workload;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use clap::Parser;

use crate::{
    floor::Floors,
    measure::interruption::until_interrupted,
    product::Product,
    report::Report,
    round::{Contestant, Plan, measure},
    workload::Workload,
};

#[derive(Debug, Parser)]
#[command(about = "Measures Helve beside etcd, Redis and PostgreSQL")]
struct Arguments {
    /// What to measure side by side
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        overrides_with = "products",
        default_value = "helve,helve-secured,etcd,redis,postgres"
    )]
    products: Vec<Product>,
    /// Numbers of callers at a time
    #[arg(
        long,
        value_delimiter = ',',
        overrides_with = "callers",
        default_value = "1,16,64,256"
    )]
    callers: Vec<usize>,
    /// Which workloads
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        overrides_with = "workloads",
        default_value = "mint,create,mint-ttl,get,cart,cart-compare,batch,list,mixed,hot"
    )]
    workloads: Vec<Workload>,
    /// Rounds of each product, in alternation; medians are reported
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long one round is, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    round_ms: u64,
    /// How long it runs before that unmeasured, in milliseconds
    #[arg(long, default_value_t = 300)]
    warm_up_ms: u64,
    /// Bytes of each value, a JSON string
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Handles that live while the mixed workload runs
    #[arg(long, default_value_t = 1_000_000)]
    live: usize,
    /// An open loop: operations a second, begun at fixed times (to the millisecond) and timed from
    /// then
    #[arg(long)]
    rate: Option<u32>,
    /// Where to write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// A directory for plots in SVG
    #[arg(long)]
    plots: Option<PathBuf>,
    /// `cargo bench` says this to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    until_interrupted(run(Arguments::parse())).await
}

async fn run(arguments: Arguments) -> Result<()> {
    ensure!(arguments.rounds > 0, "at least one round: --rounds");
    ensure!(
        arguments.value_bytes >= 32,
        "at least 32 bytes: --value-bytes"
    );
    let plan = Plan {
        rounds: arguments.rounds,
        warm_up: Duration::from_millis(arguments.warm_up_ms),
        time: Duration::from_millis(arguments.round_ms),
        // The quotes of a JSON string are two of its bytes.
        value: "v".repeat(arguments.value_bytes - 2),
        live: arguments.live,
        rate: arguments.rate,
    };
    let floors = Floors::measure(plan.time).await?;
    let mut contestants: Vec<Contestant> = Vec::new();
    let mut left_out = Vec::new();
    for &product in &arguments.products {
        match product.start().await? {
            Ok(running) => contestants.push((product, running)),
            Err(why) => left_out.push((product, why)),
        }
    }
    ensure!(
        !contestants.is_empty(),
        "this machine has none of them: {left_out:?}"
    );
    let mut cells = Vec::new();
    for &workload in &arguments.workloads {
        cells.extend(measure(&plan, &contestants, workload, &arguments.callers).await?);
    }
    let promises = contestants
        .iter()
        .map(|&(product, _)| (product, product.promise().to_owned()));
    let report = Report {
        promises: promises.collect(),
        left_out,
        floors,
        cells,
    };
    for (_, running) in contestants {
        running.stop().await?;
    }
    println!("{}", report.text());
    if let Some(path) = &arguments.json {
        report.write_json(path)?;
    }
    if let Some(directory) = &arguments.plots {
        std::fs::create_dir_all(directory)?;
        for file in plot::draw(&report.cells, directory)? {
            println!("{}", file.display());
        }
    }
    Ok(())
}
