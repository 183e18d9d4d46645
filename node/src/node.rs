//! The composition root: what a node is made of, in the order in which it starts and, backwards, stops.
//!
//! ```text
//! data directory ► log, rows, snapshots ► listeners ► peer server ► id (bootstrap) ► consensus ► proposer, reader ► services
//! ```

mod background;
mod listeners;
mod start;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use helve_proto::command::v1::{SetClusterId, command::Operation};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::background::Background;
pub use self::start::StartError;
use crate::{
    config::Config,
    leadership::Leadership,
    propose::Proposer,
    raft::{Consensus, bootstrap, log_store::LogStore},
    read_index::own_command,
    runtime::OwnRuntime,
    service::{Services, peer::Running},
    stamp,
    storage::state_db::StateDb,
};

/// How long calls under way may take when a node stops.
const DRAIN_LIMIT: Duration = Duration::from_secs(8);

/// A running node. [`Node::shutdown`] stops it in good order; dropping it stops it at once, which loses nothing that was acknowledged.
pub struct Node {
    addresses: Addresses,
    leadership: Leadership,
    consensus: Consensus,
    services: Arc<Services>,
    log: LogStore,
    state: Arc<StateDb>,
    /// Cancelled when the client listeners close, and when the peer listener does.
    clients_stop: CancellationToken,
    peers_stop: CancellationToken,
    background: Mutex<Background>,
    client_tasks: JoinSet<()>,
    peer_tasks: JoinSet<()>,
    /// The peer server asks it for the running parts.
    _running: watch::Sender<Option<Running>>,
    _service_runtime: OwnRuntime,
    _raft_runtime: OwnRuntime,
}

/// Where a node listens.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// For clients.
    pub client: SocketAddr,
    /// For peers.
    pub peer: SocketAddr,
    /// For probes and metrics.
    pub http: SocketAddr,
}

impl Node {
    /// Starts a node, and returns once it takes part in its cluster. A pristine node waits for its peers first.
    ///
    /// # Errors
    /// See [`StartError`]; each says what to do.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        start::start(config).await
    }

    /// Where this node listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What this node knows of itself and its cluster.
    #[must_use]
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Waits until the node cannot go on. Returns why: consensus stopped by itself, which only a failing storage makes it do, or a
    /// task broke that the node cannot do without.
    pub async fn wait(&self) -> String {
        let mut background = self.background.lock().await;
        let stopped = tokio::select! {
            stopped = self.consensus.wait_leading(|_| false) => match stopped {
                Ok(_) => "consensus stopped".to_owned(),
                Err(stopped) => stopped.to_string(),
            },
            broken = background.broken() => broken,
        };
        self.consensus.overview().stopped.unwrap_or(stopped)
    }

    /// Stops in good order: no new requests, leadership to another node, calls under way to their end, then everything else.
    pub async fn shutdown(mut self) {
        self.leadership.stop_serving();
        self.services.drain();
        match self.leadership.transfer(None).await {
            Ok(to) => tracing::info!(to, "handed leadership over"),
            Err(why) => tracing::debug!(%why, "no leadership to hand over"),
        }
        self.clients_stop.cancel();
        let drained = async { while self.client_tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_LIMIT, drained).await.is_err() {
            tracing::warn!("calls under way were cut off");
        }
        self.consensus.shutdown().await;
        self.peers_stop.cancel();
        self.peer_tasks.shutdown().await;
        let (log, state) = (self.log.clone(), Arc::clone(&self.state));
        let flushed = tokio::task::spawn_blocking(move || {
            log.stop();
            state.sync()
        });
        match flushed.await {
            Ok(Ok(())) => tracing::info!("stopped"),
            Ok(Err(error)) => {
                tracing::error!(%error, "the rows could not be synced; the log has them");
            }
            Err(error) => tracing::error!(%error, "the storage did not stop cleanly"),
        }
    }
}

/// Names the cluster as soon as this node leads one without a name.
async fn name_cluster(consensus: Consensus, proposer: Proposer) {
    while consensus.identity().cluster_id().is_empty() {
        if consensus.wait_leading(|l| l.here).await.is_err() {
            return;
        }
        let proposed = match stamp::mint_uuid() {
            Ok(cluster_id) => {
                let command = own_command(Operation::SetClusterId(SetClusterId { cluster_id }));
                proposer
                    .propose(command, Instant::now() + Duration::from_secs(5))
                    .await
                    .map(|_| ())
            }
            Err(error) => Err(Arc::new(error).into()),
        };
        if let Err(error) = proposed {
            tracing::warn!(%error, "the cluster has no name yet");
        }
        // Another node may lead now and have named it; the entry arrives like any other.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Ends, whenever this node comes to lead, a change of members that a former leader left half done.
async fn end_changes(consensus: Consensus) {
    let mut served = 0;
    while let Ok(leading) = consensus
        .wait_leading(move |l| l.here && l.term != served)
        .await
    {
        match consensus.leave_joint().await {
            Ok(()) => served = leading.term,
            Err(error) => {
                tracing::warn!(%error, "a change of members is not finished yet");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }
}

/// Keeps asking for this node's seat until it votes: it was given an id, and may have crashed before it was made a member.
async fn take_seat(consensus: Consensus, peers: BTreeMap<u64, String>) {
    let identity = Arc::clone(consensus.identity());
    let mut said = String::new();
    loop {
        if let Some((_, true)) = consensus.member_by_uuid(&identity.record().uuid) {
            return;
        }
        if let Some(leader) = bootstrap::find_leader(&identity, &peers).await
            && let Err(why) = bootstrap::join(&identity, identity.node_id(), &leader).await
            && why != said
        {
            tracing::info!("not a voter yet: {why}");
            said = why;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
