//! The three nodes of the demo.

use std::{
    iter,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use helve_client::NodeConnection;
use helve_command::cluster::request;
use helve_proto::v1::{
    NodeStatus, Role, StatusRequest, cluster_service_client::ClusterServiceClient,
};
use tokio::time::Instant;

use super::{
    processes::{Process, Spec},
    secrets::{Holder, Secrets, node_name},
};

/// How long the cluster may take to become ready, or to choose another leader.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a status may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two looks at a condition.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A node's process, and where it serves clients.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) client: SocketAddr,
    pub(super) process: Process,
    pub(super) data_dir: PathBuf,
    pub(super) audit_log: PathBuf,
    /// The operator's, for looks at its status.
    line: NodeConnection,
}

impl Node {
    /// Starts the node at this place of `peers`.
    fn start(
        dir: &Path,
        secrets: &Secrets,
        place: usize,
        seat: &[SocketAddr],
        peers: &str,
    ) -> anyhow::Result<Self> {
        let name = node_name(place);
        let data_dir = dir.join(&name);
        let audit_log = dir.join(format!("{name}-audit.log"));
        let own = [
            ("--id", (place + 1).to_string()),
            ("--data-dir", data_dir.display().to_string()),
            ("--listen", seat[0].to_string()),
            ("--peer-listen", seat[1].to_string()),
            ("--http-listen", seat[2].to_string()),
            ("--peers", peers.to_owned()),
            ("--audit-log", audit_log.display().to_string()),
        ];
        let flags = own.into_iter().chain(secrets.serve_flags(place));
        let arguments = flags.flat_map(|(flag, value)| [flag.to_owned(), value]);
        let spec = Spec {
            name,
            arguments: iter::once("serve".to_owned()).chain(arguments).collect(),
        };
        let mut looks = secrets.cluster(Holder::Operator, &[]);
        looks.timeout = STATUS_TIMEOUT;
        Ok(Self {
            client: seat[0],
            line: looks.channel(&seat[0].to_string())?,
            process: Process::start(spec, dir)?,
            data_dir,
            audit_log,
        })
    }

    /// What it says of itself.
    async fn status(&self) -> anyhow::Result<NodeStatus> {
        let reply = ClusterServiceClient::new(self.line.clone())
            .status(request(StatusRequest {}, STATUS_TIMEOUT))
            .await?;
        reply.into_inner().node.context("a status without a node")
    }
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
    pub(super) fn start(
        dir: &Path,
        secrets: &Secrets,
        addresses: &[SocketAddr],
    ) -> anyhow::Result<Self> {
        let seats: Vec<_> = addresses.chunks_exact(3).collect();
        let peers: Vec<_> = seats
            .iter()
            .zip(1..)
            .map(|(seat, id)| format!("{id}={}", seat[1]))
            .collect();
        let peers = peers.join(",");
        let mut nodes = Vec::new();
        for (place, seat) in seats.into_iter().enumerate() {
            nodes.push(Node::start(dir, secrets, place, seat, &peers)?);
        }
        Ok(Self(nodes))
    }

    /// Where the nodes serve clients.
    pub(super) fn endpoints(&self) -> Vec<String> {
        self.0.iter().map(|node| node.client.to_string()).collect()
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
    pub(super) async fn leader_after(&mut self, term: u64) -> anyhow::Result<Leader> {
        self.led("no new leader", move |leader, _| {
            (leader.term > term).then_some(leader)
        })
        .await
    }

    async fn led(
        &mut self,
        failure: &str,
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
                bail!("{failure} after {READY_TIMEOUT:?}");
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// The leader of the highest term that says so itself, and how many nodes are ready under it.
    async fn look(&self) -> (Option<Leader>, usize) {
        let mut statuses = Vec::new();
        for (place, node) in self.0.iter().enumerate() {
            if node.process.pid().is_some()
                && let Ok(status) = node.status().await
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
