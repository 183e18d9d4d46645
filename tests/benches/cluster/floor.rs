//! What the machine gives at most: its disk, a gRPC call that does nothing, and consensus without either.

mod consensus;

use std::{
    fs::File,
    io::{Seek as _, SeekFrom, Write as _},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use comfy_table::Table;
use futures::future::try_join_all;
use hdrhistogram::Histogram;
use helve_tests::address::next_loopback;
use serde::Serialize;
use tokio::{net::TcpListener, sync::oneshot};
use tonic::transport::{Channel, Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::measure::table::{aligned, table};

const BLOCK_BYTES: usize = 4096;
const PREALLOCATED_BYTES: usize = 64 << 20;
const CALLERS: usize = 256;
const CALLERS_PER_CONNECTION: usize = 64;

/// One floor.
#[derive(Debug, Serialize)]
pub(crate) struct Floor {
    what: &'static str,
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
}

/// All of them.
#[derive(Debug, Serialize)]
pub(crate) struct Floors(Vec<Floor>);

impl Floors {
    pub(crate) async fn measure(time: Duration) -> Result<Self> {
        let appended = fdatasyncs(1, 0, time).await?;
        let preallocated = fdatasyncs(1, PREALLOCATED_BYTES, time).await?;
        let three = fdatasyncs(3, PREALLOCATED_BYTES, time).await?;
        let unary = unary(time).await?;
        let proposals = consensus::proposals(time).await?;
        Ok(Self(vec![
            Floor::new("append 4 KiB and fdatasync, one writer", &appended, time),
            Floor::new("the same into a preallocated file", &preallocated, time),
            Floor::new("the same, three writers of a file each", &three, time),
            Floor::new("empty unary call over tonic, 256 callers", &unary, time),
            Floor::new(
                "openraft, three nodes in one thread, in memory, 256 callers",
                &proposals,
                time,
            ),
        ]))
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = table(&["floor", "per second", "p50 us", "p99 us"]);
        for floor in &self.0 {
            table.add_row([
                floor.what.to_owned(),
                format!("{:.0}", floor.per_second),
                floor.p50_us.to_string(),
                floor.p99_us.to_string(),
            ]);
        }
        aligned(table, 1)
    }
}

impl Floor {
    #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
    fn new(what: &'static str, latencies_us: &Histogram<u64>, time: Duration) -> Self {
        Self {
            what,
            per_second: latencies_us.len() as f64 / time.as_secs_f64(),
            p50_us: latencies_us.value_at_quantile(0.5),
            p99_us: latencies_us.value_at_quantile(0.99),
        }
    }
}

/// Number of writers at a time: as many as there are nodes on this machine.
async fn fdatasyncs(writers: usize, preallocated: usize, time: Duration) -> Result<Histogram<u64>> {
    let writers =
        (0..writers).map(|_| tokio::task::spawn_blocking(move || fdatasync(preallocated, time)));
    let mut all = Histogram::<u64>::new(3)?;
    for one in try_join_all(writers).await? {
        all.add(one?)?;
    }
    Ok(all)
}

fn fdatasync(preallocated: usize, time: Duration) -> Result<Histogram<u64>> {
    let directory = tempfile::tempdir()?;
    let mut file = File::create_new(directory.path().join("log"))?;
    let zeroes = vec![0; 1 << 20];
    for _ in 0..preallocated / zeroes.len() {
        file.write_all(&zeroes)?;
    }
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    let block = [7; BLOCK_BYTES];
    let mut latencies_us = Histogram::new(3)?;
    let end = Instant::now() + time;
    while Instant::now() < end {
        let begun = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        latencies_us.record(u64::try_from(begun.elapsed().as_micros())?)?;
        if preallocated > 0 && file.stream_position()? >= preallocated as u64 {
            file.seek(SeekFrom::Start(0))?;
        }
    }
    Ok(latencies_us)
}

/// The server has a thread of its own, with a runtime of its own, as a node has.
async fn unary(time: Duration) -> Result<Histogram<u64>> {
    let (address_out, address) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async move {
            let listener = TcpListener::bind((next_loopback(), 0)).await?;
            let sent = address_out.send(listener.local_addr()?);
            sent.ok().context("the measurement has ended")?;
            let (reporter, service) = tonic_health::server::health_reporter();
            reporter
                .set_service_status("", tonic_health::ServingStatus::Serving)
                .await;
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = Server::builder().add_service(service);
            let stop = async { stopped.await.unwrap_or(()) };
            Ok(server.serve_with_incoming_shutdown(incoming, stop).await?)
        })
    });
    let endpoint = Endpoint::from_shared(format!("http://{}", address.await?))?.tcp_nodelay(true);
    let connections = (0..CALLERS.div_ceil(CALLERS_PER_CONNECTION)).map(|_| endpoint.connect());
    let connections: Vec<Channel> = try_join_all(connections).await?;
    let end = Instant::now() + time;
    let runs = (0..CALLERS).map(async |caller| {
        let mut client = HealthClient::new(connections[caller / CALLERS_PER_CONNECTION].clone());
        let mut latencies_us = Histogram::<u64>::new(3)?;
        while Instant::now() < end {
            let begun = Instant::now();
            client.check(HealthCheckRequest::default()).await?;
            latencies_us.record(u64::try_from(begun.elapsed().as_micros())?)?;
        }
        anyhow::Ok(latencies_us)
    });
    let mut all = Histogram::<u64>::new(3)?;
    for one in try_join_all(runs).await? {
        all.add(one)?;
    }
    drop((connections, stop));
    let ended = tokio::task::spawn_blocking(move || server.join()).await?;
    ended.map_err(|_| anyhow::anyhow!("the server panicked"))??;
    Ok(all)
}
