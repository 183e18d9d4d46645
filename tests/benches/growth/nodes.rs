//! Three nodes with the memory that they have by default, and a client for each of them alone: so
//! each call goes through the node that is meant, whichever node leads.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use helve_client::{Client, ClusterBuilder};
use helve_proto::v1::{
    CountRequest, GetRequest, HandleStatus, NodeStatus, TakeSnapshotRequest,
    cluster_service_client::ClusterServiceClient,
};
use helve_tests::{
    cluster::{Cluster, Setup},
    process::binary,
    wait::{Look, until_within},
};
use serde::Serialize;
use tonic::Request;

use crate::{
    footprint::peak_bytes,
    handles::{LIVE, any},
    measure::page::scrape,
    plan::Plan,
};

/// How long a node may show nothing new: ten million handles take their time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// A call that a node refuses for now is made again for so long.
const DEADLINE: Duration = Duration::from_secs(60);

/// Which of the two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Size {
    Small,
    Grown,
}

impl Size {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Grown => "grown",
        }
    }
}

/// A cluster.
pub(crate) struct Nodes {
    pub(crate) size: Size,
    /// Handles that live in it, not counting those that are minted.
    pub(crate) live: u64,
    pub(crate) cluster: Cluster,
    clients: Vec<Client>,
    /// The most memory that earlier processes of a seat had.
    peaks_bytes: BTreeMap<u64, u64>,
}

impl Nodes {
    pub(crate) async fn start(size: Size, plan: &Plan) -> Result<Self> {
        let own = binary(env!("CARGO_BIN_EXE_helve-under-test"));
        let (live, binary) = match (size, &plan.beside) {
            (Size::Small, Some(other)) => (plan.live, other.clone()),
            (Size::Small, None) => (plan.small, own),
            (Size::Grown, _) => (plan.live, own),
        };
        let cluster = Setup::new(binary, 3).beside_others().start().await?;
        let client = |endpoint| {
            let builder = ClusterBuilder::new([endpoint]).deadline(DEADLINE);
            Ok(builder.build()?)
        };
        let clients = cluster.endpoints().into_iter().map(client);
        Ok(Self {
            size,
            live,
            clients: clients.collect::<Result<_>>()?,
            cluster,
            peaks_bytes: BTreeMap::new(),
        })
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.cluster.stop().await
    }

    /// The client that calls through the node in a seat.
    pub(crate) fn client(&self, seat: u64) -> &Client {
        &self.clients[usize::try_from(seat - 1).expect("there are three")]
    }

    /// Of all nodes that run.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let seats = self.cluster.seats().into_iter();
        seats
            .filter_map(|seat| self.cluster.node(seat).pid())
            .collect()
    }

    /// The most memory that a process of this seat has had.
    pub(crate) fn peak_bytes(&self, seat: u64) -> Result<u64> {
        let earlier = self.peaks_bytes.get(&seat).copied().unwrap_or_default();
        match self.cluster.node(seat).pid() {
            Some(pid) => Ok(peak_bytes(pid)?.max(earlier)),
            None => Ok(earlier),
        }
    }

    pub(crate) fn kill(&mut self, seat: u64) -> Result<()> {
        let peak_bytes = self.peak_bytes(seat)?;
        self.peaks_bytes.insert(seat, peak_bytes);
        self.cluster.kill(seat)
    }

    pub(crate) async fn status(&self, seat: u64) -> Result<NodeStatus> {
        let status = self.cluster.status(seat).await?;
        status.node.context("a status names its node")
    }

    /// Waits until a linearizable get of one of the handles is answered through a node; how many seconds after it began.
    pub(crate) async fn serves(&self, seat: u64, begun: Instant) -> Result<f64> {
        let caller = self.cluster.caller(seat);
        let request = GetRequest {
            store: LIVE.to_owned(),
            id: any(self.live),
            ..GetRequest::default()
        };
        let what = format!("node {seat} to serve");
        let served = until_within(PATIENCE, &what, async || {
            match caller.get(request.clone()).await {
                Ok(reply) if reply.status() == HandleStatus::Live => {
                    Look::Done(Ok(begun.elapsed().as_secs_f64()))
                }
                Ok(reply) => Look::Done(Err(anyhow!("{} is {:?}", request.id, reply.status()))),
                Err(status) => Look::NotYet(status.to_string()),
            }
        });
        served.await?
    }

    /// Handles and keys that the node in a seat holds, expired ones that are not removed yet included.
    pub(crate) async fn rows(&self, seat: u64) -> Result<u64> {
        let url = format!("http://{}/metrics", self.cluster.listeners(seat).http);
        let page = scrape(&url).await?;
        let mut lines = page.lines();
        let line = lines.find(|line| line.starts_with("helve_live_rows{"));
        let (_, rows) = line
            .and_then(|line| line.rsplit_once(' '))
            .context("the page counts rows")?;
        Ok(rows.parse()?)
    }

    /// How many handles of the store that the cluster was filled with live.
    pub(crate) async fn count(&self, seat: u64) -> Result<u64> {
        let request = CountRequest {
            store: LIVE.to_owned(),
            owner: None,
        };
        Ok(self.cluster.caller(seat).count(request).await?.live)
    }

    /// Has a node take a snapshot of what it has applied.
    pub(crate) async fn take_snapshot(&self, seat: u64) -> Result<()> {
        let channel = self.cluster.caller(seat).channel();
        let what = format!("node {seat} to take a snapshot");
        until_within(PATIENCE, &what, async || {
            let mut request = Request::new(TakeSnapshotRequest {});
            request.set_timeout(DEADLINE);
            let mut client = ClusterServiceClient::new(channel.clone());
            Look::of(client.take_snapshot(request).await)
        })
        .await?;
        Ok(())
    }
}
