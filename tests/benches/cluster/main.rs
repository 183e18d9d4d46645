//! How fast three nodes are over loopback: each workload at each number of callers, with latency, and fsyncs counted by the
//! nodes' log writers.
//!
//! Callers use bare gRPC stubs on one thread, and share the machine with the nodes. The nodes write to the temporary directory:
//! `TMPDIR` chooses the disk.

mod figures;
mod workload;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use figures::{Figures, Output};
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use helve_tests::{
    caller::Caller,
    cluster::{Cluster, Setup},
    process::binary,
};
use workload::Workload;

/// Callers that share one connection to a node.
const CALLERS_PER_CONNECTION: usize = 32;

#[derive(Parser)]
#[command(about = "Measures three Helve nodes over loopback")]
struct Arguments {
    /// How many nodes to start
    #[arg(long, default_value_t = 3)]
    nodes: u64,
    /// Numbers of callers that wait for an answer at a time
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256")]
    callers: Vec<usize>,
    /// Which workloads
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        default_value = "mint,get,cart"
    )]
    workloads: Vec<Workload>,
    /// How long to measure each
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How long to run each before measuring
    #[arg(long, default_value_t = 1)]
    warm_up_seconds: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// `cargo bench` says this to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cluster = Setup::new(
        binary(env!("CARGO_BIN_EXE_helve-under-test")),
        arguments.nodes,
    )
    .start()
    .await?;
    let mut rows = Vec::new();
    for &workload in &arguments.workloads {
        for &callers in &arguments.callers {
            let name = workload
                .to_possible_value()
                .context("every workload has a name")?
                .get_name()
                .to_owned();
            eprintln!("{name}, {callers} callers, {} s", arguments.seconds);
            rows.push(measure(&cluster, &arguments, workload, name, callers).await?);
        }
    }
    arguments.output.print(&rows)?;
    cluster.stop().await
}

async fn measure(
    cluster: &Cluster,
    arguments: &Arguments,
    workload: Workload,
    name: String,
    callers: usize,
) -> Result<Figures> {
    let nodes: Vec<Vec<Caller>> = cluster
        .seats()
        .into_iter()
        .map(|seat| {
            (0..callers.div_ceil(CALLERS_PER_CONNECTION))
                .map(|_| cluster.caller(seat))
                .collect()
        })
        .collect();
    let value = vec![b'v'; arguments.value_bytes];
    let ids = workload.prepare(&nodes[0][0], &value).await?;
    let run = async |time: Duration| {
        let end = Instant::now() + time;
        let runs = (0..callers).map(|caller| {
            let connection = caller / CALLERS_PER_CONNECTION;
            let turn = nodes
                .iter()
                .map(|connections| connections[connection].clone())
                .collect();
            workload.run(workload::Turn::new(turn, caller), &value, &ids, end)
        });
        let mut all = Histogram::<u64>::new(3)?;
        for one in try_join_all(runs).await? {
            all.add(one)?;
        }
        anyhow::Ok(all)
    };
    run(Duration::from_secs(arguments.warm_up_seconds)).await?;
    let syncs = syncs(cluster).await?;
    let begun = Instant::now();
    let latencies_us = run(Duration::from_secs(arguments.seconds)).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let syncs = self::syncs(cluster).await? - syncs;
    Ok(Figures::new(name, callers, &latencies_us, seconds, syncs))
}

/// The fsyncs of all nodes' log writers since they started.
async fn syncs(cluster: &Cluster) -> Result<u64> {
    let mut sum = 0;
    for seat in cluster.seats() {
        sum += cluster
            .status(seat)
            .await?
            .node
            .context("a status names its node")?
            .log_syncs;
    }
    Ok(sum)
}
