//! The composition root: what a node is made of, in the order in which it starts and, backwards, stops.
//!
//! ```text
//! data directory ► log, rows, snapshots ► listeners ► peer server ► id (bootstrap) ► consensus ► proposer, reader ► services
//! ```

mod addresses;
mod background;
mod exposure;
mod guard;
mod listeners;
mod membership;
mod observe;
mod put_back;
mod record;
pub mod recover;
mod refusal;
mod reload;
pub mod restore;
mod start;
mod waiting;

use std::{path::PathBuf, sync::Arc, time::Duration};

use helve_proto::command::v1::{SetClusterId, command::Operation};
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::background::Background;
#[cfg(test)]
pub(crate) use self::start::alone::Alone;
pub use self::{addresses::Addresses, background::Broken, refusal::StartError, reload::Reload};
use crate::{
    audit::Audit,
    config::{Config, Refusal},
    membership::{misplaced::Misplaced, transfer::transfer_leader},
    propose::Proposer,
    raft::{Consensus, log_store::LogStore},
    read_index::own_command,
    readiness::Readiness,
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
    data_dir: PathBuf,
    /// That this node must not go on where it is, once that is found.
    misplaced: watch::Receiver<Option<Misplaced>>,
    /// That this node lacks a key without which it must not serve, once that is found.
    keyless: watch::Receiver<Option<Refusal>>,
    readiness: Readiness,
    consensus: Consensus,
    services: Arc<Services>,
    audit: Audit,
    reload: Reload,
    log: LogStore,
    state: Arc<StateDb>,
    /// Cancelled when the client listeners close, and when the peer listener does.
    clients_stop: CancellationToken,
    peers_stop: CancellationToken,
    tasks: Mutex<Tasks>,
    /// The peer server asks it for the running parts.
    _running: watch::Sender<Option<Running>>,
    _service_runtime: OwnRuntime,
    _raft_runtime: OwnRuntime,
}

/// What runs as long as the node does, and has to be watched.
struct Tasks {
    background: Background,
    client_ports: Background,
    peer_port: Background,
}

/// Why a node that ran cannot go on.
#[derive(Debug)]
pub enum Ended {
    /// Consensus stopped; this is why.
    Stopped(String),
    /// A part that the node cannot do without has ended.
    Broken(Broken),
    /// It should not have started: its peers said so only later.
    Refused(StartError),
}

impl Node {
    /// Starts a node, and returns once it takes part in its cluster. A pristine node waits for its peers first. If `stop` is cancelled
    /// before it has met them, closes what was opened and returns `None`; afterwards, the node is still returned.
    ///
    /// Do not drop the future: a thread may be at work in the storage engine, and the end of the process would crash it.
    ///
    /// # Errors
    /// See [`StartError`]; each says what to do.
    pub async fn start(
        config: Config,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, StartError> {
        start::start(config, stop).await
    }

    /// Where this node listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What this node reads again when it is asked to.
    #[must_use]
    pub fn reload(&self) -> &Reload {
        &self.reload
    }

    /// Waits until the node cannot go on: consensus stopped by itself, which only a failing storage makes it do, a task or a port
    /// ended that the node cannot do without, or it is found to be misplaced.
    pub async fn wait(&self) -> Ended {
        let mut tasks = self.tasks.lock().await;
        let Tasks {
            background,
            client_ports,
            peer_port,
        } = &mut *tasks;
        let mut misplaced = self.misplaced.clone();
        let misplaced = async {
            let found = misplaced.wait_for(Option::is_some).await;
            found.ok().and_then(|found| found.clone())
        };
        let mut keyless = self.keyless.clone();
        let keyless = async {
            let found = keyless.wait_for(Option::is_some).await;
            found.ok().and_then(|found| found.clone())
        };
        let ended = tokio::select! {
            Some(refusal) = keyless => Ended::Refused(refusal.into()),
            Some(found) = misplaced => Ended::Refused(StartError::misplaced(&self.data_dir, found)),
            stopped = self.consensus.wait_leading(|_| false) => {
                Ended::Stopped(stopped.map_or_else(|e| e.to_string(), |_| "consensus stopped".to_owned()))
            }
            stopped = self.consensus.applied().ended() => Ended::Stopped(stopped.to_string()),
            broken = background.broken() => Ended::Broken(broken),
            broken = client_ports.broken() => Ended::Broken(broken),
            broken = peer_port.broken() => Ended::Broken(broken),
        };
        // What else ended may have ended for that.
        match (ended, self.consensus.overview().stopped) {
            (Ended::Stopped(_) | Ended::Broken(_), Some(why)) => Ended::Stopped(why),
            (ended, _) => ended,
        }
    }

    /// Stops in good order: no new requests, leadership to another node, calls under way to their end, then everything else.
    pub async fn shutdown(self) {
        let mut tasks = self.tasks.lock().await;
        self.readiness.stop_serving();
        self.services.drain();
        match transfer_leader(&self.consensus, None).await {
            Ok(now) => tracing::info!(to = now.leader, "handed leadership over"),
            Err(why) => tracing::debug!(%why, "no leadership to hand over"),
        }
        self.clients_stop.cancel();
        let drained = tasks.client_ports.drained();
        if tokio::time::timeout(DRAIN_LIMIT, drained).await.is_err() {
            tracing::warn!("calls under way were cut off");
        }
        // Before consensus: it calls an answer that it still owes an error.
        self.peers_stop.cancel();
        tasks.peer_port.end().await;
        self.consensus.shutdown().await;
        close(
            self.audit.clone(),
            self.log.clone(),
            Arc::clone(&self.state),
        )
        .await;
    }
}

/// Makes durable what a node has on disk, and ends the threads that write there.
async fn close(audit: Audit, log: LogStore, state: Arc<StateDb>) {
    let flushed = tokio::task::spawn_blocking(move || {
        audit.close();
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
                    .propose(&command, Instant::now() + Duration::from_secs(5))
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
