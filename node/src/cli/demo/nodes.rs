//! The three nodes of the demo.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use helve_proto::v1::{
    NodeStatus, Role, StatusRequest, cluster_service_client::ClusterServiceClient,
};
use tokio::time::Instant;
use tonic::transport::Endpoint;

use super::processes::{Process, Spec};

/// How long the cluster may take to become ready, or to choose another leader.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a status may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two looks at a condition.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A node's process and its address for clients.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) client: SocketAddr,
    pub(super) process: Process,
}

/// The cluster.
#[derive(Debug)]
pub(super) struct Nodes(pub(super) Vec<Node>);

/// A leader, as a majority sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leader {
    /// Its place in [`Nodes`].
    pub(super) place: usize,
    pub(super) term: u64,
}

impl Nodes {
    /// Starts the nodes, each with its own directory under `dir`. `addresses` are three for each node.
    pub(super) fn start(dir: &Path, addresses: &[SocketAddr]) -> anyhow::Result<Self> {
        let seats: Vec<_> = addresses.chunks_exact(3).collect();
        let peers: Vec<_> = seats
            .iter()
            .zip(1..)
            .map(|(seat, id)| format!("{id}={}", seat[1]))
            .collect();
        let peers = peers.join(",");
        let node = |(seat, id): (&&[SocketAddr], u32)| {
            let data_dir = dir.join(format!("node-{id}"));
            let arguments = [
                ("--id", id.to_string()),
                ("--data-dir", data_dir.display().to_string()),
                ("--listen", seat[0].to_string()),
                ("--peer-listen", seat[1].to_string()),
                ("--http-listen", seat[2].to_string()),
                ("--peers", peers.clone()),
            ];
            let arguments = std::iter::once("serve".to_owned())
                .chain(
                    arguments
                        .into_iter()
                        .flat_map(|(flag, value)| [flag.to_owned(), value]),
                )
                .collect();
            let spec = Spec {
                name: format!("node-{id}"),
                arguments,
            };
            Ok(Node {
                client: seat[0],
                process: Process::start(spec, dir)?,
            })
        };
        seats
            .iter()
            .zip(1..)
            .map(node)
            .collect::<anyhow::Result<_>>()
            .map(Self)
    }

    /// The nodes' addresses for clients, as URLs.
    pub(super) fn endpoints(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|node| format!("http://{}", node.client))
            .collect()
    }

    /// Waits until all nodes are ready under one leader.
    pub(super) async fn ready(&mut self) -> anyhow::Result<Leader> {
        let everyone = self.0.len();
        self.led("the nodes are not ready", move |leader, ready| {
            (ready == everyone).then_some(leader)
        })
        .await
    }

    /// Waits until the nodes that run follow a leader of a newer term than `term`.
    pub(super) async fn led_anew(&mut self, term: u64) -> anyhow::Result<Leader> {
        self.led("no new leader", move |leader, _| {
            (leader.term > term).then_some(leader)
        })
        .await
    }

    async fn led(
        &mut self,
        complaint: &str,
        accept: impl Fn(Leader, usize) -> Option<Leader>,
    ) -> anyhow::Result<Leader> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            for node in &mut self.0 {
                node.process.check()?;
            }
            let (leader, ready) = self.look().await;
            if let Some(accepted) = leader.and_then(|leader| accept(leader, ready)) {
                return Ok(accepted);
            }
            if Instant::now() > deadline {
                bail!("{complaint} after {READY_TIMEOUT:?}");
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// The leader of the highest term that says so itself, and how many nodes are ready under it.
    async fn look(&self) -> (Option<Leader>, usize) {
        let mut statuses = Vec::new();
        for (place, node) in self.0.iter().enumerate() {
            if node.process.pid().is_some()
                && let Ok(status) = status(node.client).await
            {
                statuses.push((place, status));
            }
        }
        let leader = statuses
            .iter()
            .filter(|(_, status)| status.role() == Role::Leader)
            .max_by_key(|(_, status)| status.term);
        let Some((place, leader)) = leader else {
            return (None, 0);
        };
        let ready = statuses
            .iter()
            .filter(|(_, status)| status.ready && status.leader_id == leader.id)
            .count();
        (
            Some(Leader {
                place: *place,
                term: leader.term,
            }),
            ready,
        )
    }
}

/// What a node says of itself.
async fn status(client: SocketAddr) -> anyhow::Result<NodeStatus> {
    let channel = Endpoint::from_shared(format!("http://{client}"))?
        .connect_timeout(STATUS_TIMEOUT)
        .timeout(STATUS_TIMEOUT)
        .connect()
        .await?;
    let reply = ClusterServiceClient::new(channel)
        .status(StatusRequest {})
        .await?;
    reply.into_inner().node.context("a status without a node")
}
