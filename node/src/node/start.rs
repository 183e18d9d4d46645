//! How a node starts.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use helve_machine::{
    level,
    planted::{self, Plant},
};
use helve_proto::peer::v1::NodeRecord;
use tokio::{runtime::Handle, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Addresses, Node,
    background::Background,
    listeners::{Listeners, serve_clients, serve_peers},
    membership::{end_changes, take_seat, watch_standing},
    name_cluster, record,
    refusal::StartError,
    waiting::WaitingRoom,
};
use crate::{
    config::{Bootstrap, Config},
    digest::Digester,
    disk_watch::DiskWatch,
    forward::Forwarder,
    leadership::Leadership,
    limits::{GROUP_ID, LOG_TAIL_BYTES},
    metrics::Metrics,
    peer_links::PeerLinks,
    propose::Proposer,
    raft::{
        Consensus, Stopped,
        bootstrap::{self, Beginning, Force},
        identity::{Identity, REMOVED},
        log_store::{LogStore, PurgeGate},
        state_machine::StateMachine,
        strangers::{self, Misplaced},
    },
    read_index::Reader,
    retention,
    runtime::OwnRuntime,
    service::{
        Services,
        peer::{PeerServer, Running},
    },
    stamp::{self, Stamper},
    storage::{
        checkpoint::Snapshots,
        data_dir::{DataDir, NodeIdentity},
        error::StorageError,
        options::StateOptions,
        state_db::StateDb,
    },
    ticker, upgrade,
};

/// What a node has on disk.
struct Storage {
    path: PathBuf,
    known: NodeIdentity,
    /// It holds something of a cluster, or was given an id there.
    has_past: bool,
    data_dir: Arc<Mutex<DataDir>>,
    log: LogStore,
    gate: PurgeGate,
    state: Arc<StateDb>,
    snapshots: Arc<Snapshots>,
}

impl Storage {
    fn open(config: &Config) -> Result<Self, StartError> {
        let uuid = if planted::is(Plant::ReuseId) {
            format!("seat-{}", config.seat)
        } else {
            stamp::mint_uuid()?
        };
        let data_dir = DataDir::open(&config.data_dir, config.seat, &uuid)?;
        let gate = PurgeGate::default();
        let log = LogStore::open(&data_dir.log_path(), GROUP_ID, LOG_TAIL_BYTES, gate.clone())?;
        let known = data_dir.identity().clone();
        let state = StateDb::open(data_dir.path(), StateOptions::default())?;
        check_level(&state, data_dir.path())?;
        let has_rows = state.applied()?.is_some();
        if log.is_pristine() && (has_rows || !known.cluster_id.is_empty()) {
            return Err(StartError::LogGone(config.data_dir.clone()));
        }
        let has_past = known.node_id != 0 || has_rows || !log.is_pristine();
        Ok(Self {
            path: data_dir.path().to_owned(),
            known,
            has_past,
            log,
            gate,
            state: Arc::new(state),
            snapshots: Arc::new(Snapshots::open(&data_dir.snapshots_path())?),
            data_dir: Arc::new(Mutex::new(data_dir)),
        })
    }
}

/// Rows of a newer version are not for this one, whoever leads.
fn check_level(state: &StateDb, path: &Path) -> Result<(), StartError> {
    let needed = state.read(|view| helve_machine::feature_level(view, GROUP_ID));
    let needed = needed.map_err(|e| StorageError::damaged("the feature level", e.to_string()))?;
    let supported = level::supported();
    if needed > supported {
        let too_old = Misplaced::TooOld { needed, supported };
        return Err(StartError::misplaced(path, too_old));
    }
    Ok(())
}

pub(super) async fn start(config: Config) -> Result<Node, StartError> {
    let opening = config.clone();
    let opened = tokio::task::spawn_blocking(move || Storage::open(&opening)).await;
    let storage = opened.map_err(io::Error::other)??;
    let listeners = Listeners::bind(&config)?;
    let addresses = listeners.addresses()?;
    let raft_runtime = OwnRuntime::start("helve-raft", config.tuning.raft_threads)?;
    let service_runtime = OwnRuntime::start("helve-service", config.tuning.service_threads)?;
    let identity = Arc::new(identify(&config, &storage.known, &addresses));
    if storage.has_past {
        identity.set_past();
    }
    let ports = [&listeners.client, &listeners.http];
    if identity.is_removed() {
        tracing::error!("{REMOVED}");
        let room = WaitingRoom::open(ports, &identity, &service_runtime)?;
        room.stay().await;
        return Err(StartError::Removed(config.data_dir));
    }
    let peers_stop = CancellationToken::new();
    let (running, running_now) = watch::channel(None);
    let peer_server = PeerServer::new(Arc::clone(&identity), running_now);
    let serving = serve_peers(listeners.peer, peer_server, peers_stop.clone());
    let mut peer_tasks = JoinSet::new();
    peer_tasks.spawn_on(serving, raft_runtime.handle());
    strangers::meet(&identity, &config.peers)
        .await
        .map_err(|misplaced| StartError::misplaced(&config.data_dir, misplaced))?;
    let waiting = || WaitingRoom::open(ports, &identity, &service_runtime);
    let beginning = begin(&config, &storage, &identity, waiting).await?;
    let parts = Parts {
        config,
        storage,
        identity,
        stamper: Arc::default(),
    };
    let consensus = parts.consensus(raft_runtime.handle(), beginning).await?;
    let core = parts.core(&consensus, service_runtime.handle());
    running.send_replace(Some(core.running.clone()));
    let (background, misplaced) = parts.background(&core, service_runtime.handle());
    let clients_stop = CancellationToken::new();
    let client_tasks = serve_clients(
        listeners.client,
        listeners.http,
        &core.services,
        &clients_stop,
        &service_runtime,
    )?;
    Ok(Node {
        addresses,
        data_dir: parts.storage.path,
        misplaced,
        leadership: core.leadership,
        consensus,
        services: core.services,
        log: parts.storage.log,
        state: parts.storage.state,
        clients_stop,
        peers_stop,
        background: background.into(),
        client_tasks,
        peer_tasks,
        _running: running,
        _service_runtime: service_runtime,
        _raft_runtime: raft_runtime,
    })
}

fn identify(config: &Config, known: &NodeIdentity, addresses: &Addresses) -> Identity {
    let peer_address = config.peers.get(&config.seat).cloned();
    let record = NodeRecord {
        uuid: known.uuid.clone(),
        seat: config.seat,
        peer_address: peer_address.unwrap_or_else(|| addresses.peer.to_string()),
        client_address: config
            .advertise
            .clone()
            .unwrap_or_else(|| addresses.client.to_string()),
        feature_level: level::supported(),
    };
    let identity = Identity::new(record, known.node_id, known.cluster_id.clone());
    identity.set_member_at(known.member_at);
    if known.removed {
        identity.set_removed();
    }
    identity
}

/// How this node begins; `None` if it has been a member before.
async fn begin(
    config: &Config,
    storage: &Storage,
    identity: &Identity,
    waiting: impl FnOnce() -> io::Result<WaitingRoom>,
) -> Result<Option<Beginning>, StartError> {
    if identity.node_id() != 0 {
        return Ok(None);
    }
    // A vote or an entry under the seat's own id: it stopped before it was told the cluster's name.
    if !storage.log.is_pristine() {
        identity.set_node_id(config.seat);
        return Ok(None);
    }
    let force = match config.bootstrap {
        Bootstrap::WhenAllPristine => Force::No,
        Bootstrap::Forced => Force::Bootstrap,
    };
    let room = waiting()?;
    let beginning = bootstrap::begin(identity, &config.peers, force).await;
    room.close().await;
    let beginning =
        beginning.map_err(|misplaced| StartError::misplaced(&config.data_dir, misplaced))?;
    if let Beginning::Joined {
        node_id,
        cluster_id,
    } = &beginning
    {
        // Written before anything is voted or stored under the id, which is nobody else's.
        let mut data_dir = storage
            .data_dir
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        data_dir.assign(*node_id, "")?;
        identity.set_node_id(*node_id);
        identity.set_past();
        identity.set_cluster_id(cluster_id.clone());
    } else {
        identity.set_node_id(config.seat);
    }
    Ok(Some(beginning))
}

/// What the running parts are made of.
struct Parts {
    config: Config,
    storage: Storage,
    identity: Arc<Identity>,
    stamper: Arc<Stamper>,
}

/// The running parts.
struct Core {
    consensus: Consensus,
    proposer: Proposer,
    reader: Reader,
    leadership: Leadership,
    services: Arc<Services>,
    running: Running,
}

impl Parts {
    async fn consensus(
        &self,
        runtime: &Handle,
        beginning: Option<Beginning>,
    ) -> Result<Consensus, StartError> {
        let log = self.storage.log.clone();
        let state = StateMachine::start(
            Arc::clone(&self.storage.state),
            Arc::clone(&self.storage.snapshots),
            Arc::clone(&self.identity),
            Arc::clone(&self.storage.data_dir),
            log.clone(),
            self.storage.gate.clone(),
        )?;
        let identity = Arc::clone(&self.identity);
        let stamper = Arc::clone(&self.stamper);
        let settings = self.config.tuning.consensus.clone();
        let starting = runtime.spawn(async move {
            let consensus = Consensus::start(identity, stamper, &settings, log, state).await?;
            if let Some(Beginning::Initialise(members)) = beginning {
                consensus.initialize(members).await?;
            }
            Ok::<_, Stopped>(consensus)
        });
        Ok(starting.await.map_err(io::Error::other)??)
    }

    fn core(&self, consensus: &Consensus, runtime: &Handle) -> Core {
        let _in_runtime = runtime.enter();
        let data_dir = self.storage.path.clone();
        let disk = DiskWatch::start(data_dir, self.config.disk_reserve_bytes);
        let stamper = Arc::clone(&self.stamper);
        let proposer = Proposer::start(
            consensus.clone(),
            Forwarder::new(consensus.clone()),
            Arc::clone(&stamper),
            Arc::clone(&disk),
            self.storage.log.clone(),
        );
        let reader = Reader::start(
            consensus.clone(),
            PeerLinks::new(consensus.clone()),
            Arc::clone(&stamper),
            Arc::clone(&self.storage.state),
            proposer.clone(),
        );
        let log = self.storage.log.clone();
        let contact = Arc::clone(reader.contact());
        let leadership = Leadership::new(consensus.clone(), log, disk, contact);
        let services = Services::new(
            Arc::new(proposer.clone()),
            Arc::new(reader.clone()),
            Arc::new(leadership.clone()),
            Digester::new(Arc::clone(&self.storage.state)),
            Arc::new(Metrics::default()),
        );
        let running = Running {
            consensus: consensus.clone(),
            proposer: proposer.clone(),
            stamper,
            snapshots: Arc::clone(&self.storage.snapshots),
        };
        Core {
            consensus: consensus.clone(),
            proposer,
            reader,
            leadership,
            services,
            running,
        }
    }

    /// What runs beside the services. Beside it where it is said that this node must not go on.
    fn background(
        &self,
        core: &Core,
        runtime: &Handle,
    ) -> (Background, watch::Receiver<Option<Misplaced>>) {
        let Core {
            consensus,
            proposer,
            reader,
            ..
        } = core;
        let mut background = Background::on(runtime);
        let stamper = Arc::clone(&self.stamper);
        background.run(
            "ticker",
            ticker::run(consensus.clone(), stamper, proposer.clone()),
        );
        background.run(
            "stamp watch",
            ticker::watch_stamps(consensus.clone(), reader.clone()),
        );
        let log = self.storage.log.clone();
        let snapshot_bytes = self.config.tuning.snapshot_bytes;
        background.run(
            "retention",
            retention::run(consensus.clone(), log, snapshot_bytes),
        );
        background.run("end of changes", end_changes(consensus.clone()));
        background.run(
            "feature level",
            upgrade::run(consensus.clone(), proposer.clone()),
        );
        let peers = self.config.peers.clone();
        background.finish(name_cluster(consensus.clone(), proposer.clone()));
        background.finish(take_seat(consensus.clone(), peers.clone()));
        background.finish(watch_standing(
            consensus.clone(),
            reader.clone(),
            Arc::clone(&self.storage.data_dir),
            peers.clone(),
        ));
        background.finish(record::keep(consensus.clone(), peers.clone()));
        let (found, misplaced) = watch::channel(None);
        let consensus = consensus.clone();
        background.finish(async move {
            found.send_replace(Some(strangers::watch(&consensus, &peers).await));
        });
        (background, misplaced)
    }
}
