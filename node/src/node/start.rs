//! How a node starts.

#[cfg(test)]
pub(super) mod alone;
mod beside;
mod disk;
mod rows;
mod storage;

use std::{
    io,
    sync::{Arc, PoisonError},
};

use helve_machine::level;
use helve_proto::peer::v1::NodeRecord;
use tokio::{runtime::Handle, sync::watch};
use tokio_util::sync::CancellationToken;

use self::storage::Storage;
use super::{
    Addresses, Node, Tasks,
    background::Background,
    listeners::{ClientPorts, Listeners, serve_clients, serve_peers},
    refusal::StartError,
    reload::Reload,
    waiting::WaitingRoom,
};
use crate::{
    audit::Audit,
    change_feed::ChangeFeed,
    cluster_status::ClusterStatus,
    config::{Bootstrap, Config},
    digest::Digester,
    disk_watch::DiskWatch,
    forward::Forwarder,
    membership::{
        MemberChanges,
        bootstrap::{self, Beginning, NotBegun},
        forced::Force,
        strangers,
    },
    metrics::{Metrics, Observed},
    peer_channel::Dialler,
    peer_links::PeerLinks,
    propose::Proposer,
    raft::{
        Consensus, Stopped,
        identity::{Identity, REMOVED},
        state_machine::StateMachine,
    },
    read_index::Reader,
    readiness::Readiness,
    runtime::OwnRuntime,
    service::{
        AccessCheck, ClusterParts, Services,
        peer::{PeerServer, Running},
    },
    stamp::Stamper,
    vault::{Members, Switch},
};

pub(super) async fn start(config: Config) -> Result<Node, StartError> {
    let (storage, audit) = open(&config).await?;
    let listeners = Listeners::bind(&config)?;
    let addresses = listeners.addresses()?;
    let raft_runtime = OwnRuntime::start("helve-raft", config.tuning.raft_threads)?;
    let service_runtime = OwnRuntime::start("helve-service", config.tuning.service_threads)?;
    let identity = Arc::new(identify(&config, &storage, &addresses));
    let ports = ClientPorts::of(&listeners, config.tls.client.clone());
    let waiting = || WaitingRoom::open(&ports, &identity, &config.tuning.bounds, &service_runtime);
    if !identity.may_take_part() {
        let why = identity.put_back().unwrap_or_else(|| REMOVED.to_owned());
        tracing::error!("{why}");
        return Err(waiting()?.broken().await.into());
    }
    let peers_stop = CancellationToken::new();
    let (running, running_now) = watch::channel(None);
    let peer_server = PeerServer::new(Arc::clone(&identity), running_now);
    let peer_tls = (config.tls.peer.clone(), listeners.ports.peer.clone());
    let peer = listeners.peer.try_clone()?;
    let serving = serve_peers(peer, peer_tls, peer_server, peers_stop.clone());
    let mut peer_port = Background::on(raft_runtime.handle());
    peer_port.serve("peer port", serving);
    let beginning = tokio::select! {
        beginning = begin(&config, &storage, &identity, waiting) => beginning?,
        broken = peer_port.broken() => return Err(broken.into()),
    };
    let feed = ChangeFeed::new(config.tuning.watch_window_bytes);
    let parts = Parts {
        config,
        storage,
        identity,
        audit,
        stamper: Arc::default(),
        observed: Observed::at(listeners.ports.clone()),
        feed,
    };
    let consensus = parts.consensus(raft_runtime.handle(), beginning).await?;
    let runtime = service_runtime.handle();
    let mut background = Background::on(runtime);
    let core = parts.core(&consensus, &mut background);
    running.send_replace(Some(core.running.clone()));
    let (misplaced, keyless) = parts.background(&core, &mut background);
    let clients_stop = CancellationToken::new();
    let client_ports = serve_clients(&ports, &core.services, &clients_stop, runtime)?;
    let tasks = Tasks {
        background,
        client_ports,
        peer_port,
    };
    Ok(Node {
        addresses,
        reload: parts.reload(),
        data_dir: parts.storage.path,
        misplaced,
        keyless,
        readiness: core.cluster.readiness,
        consensus,
        services: core.services,
        audit: parts.audit,
        log: parts.storage.log,
        state: parts.storage.state,
        clients_stop,
        peers_stop,
        tasks: tasks.into(),
        _running: running,
        _service_runtime: service_runtime,
        _raft_runtime: raft_runtime,
    })
}

/// What is on disk. The audit log is opened before anybody is served: what is done can be recorded, or is not done.
async fn open(config: &Config) -> Result<(Storage, Audit), StartError> {
    let config = config.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let storage = Storage::open(&config)?;
        let audit = match &config.audit {
            Some(settings) => Audit::open(settings, &storage.path, &storage.known.uuid)?,
            None => Audit::default(),
        };
        Ok((storage, audit))
    });
    opened.await.map_err(io::Error::other)?
}

fn identify(config: &Config, storage: &Storage, addresses: &Addresses) -> Identity {
    let known = &storage.known;
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
    let identity = Identity::new(record, known.node_id, known.cluster_id.clone())
        .recovered_from(known.former_cluster_id.clone())
        .dialling(Dialler::new(config.tls.peer.clone()));
    identity.set_member_at(known.member_at);
    storage.begin_run(&identity);
    if storage.has_past {
        identity.set_past();
    }
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
    let misplaced = |misplaced| StartError::misplaced(&config.data_dir, misplaced);
    let met = strangers::meet(identity, &config.peers).await;
    met.map_err(misplaced)?;
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
        Bootstrap::Forced => Force::Asked,
        Bootstrap::EverythingIsLost => Force::EverythingIsLost,
    };
    let mut room = waiting()?;
    let beginning = tokio::select! {
        beginning = bootstrap::begin(identity, &config.peers, force) => beginning,
        broken = room.broken() => return Err(broken.into()),
    };
    room.close().await;
    let beginning = beginning.map_err(|why| match why {
        NotBegun::Misplaced(why) => misplaced(why),
        NotBegun::NotForced(why) => why.into(),
    })?;
    if let Beginning::Joined {
        node_id,
        cluster_id,
    } = &beginning
    {
        // Written before anything is voted or stored under the id, which no other node has.
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
    audit: Audit,
    stamper: Arc<Stamper>,
    observed: Observed,
    feed: ChangeFeed,
}

/// The running parts.
struct Core {
    cluster: ClusterParts,
    proposer: Proposer,
    reader: Reader,
    services: Arc<Services>,
    switch: Switch,
    running: Running,
}

impl Parts {
    fn reload(&self) -> Reload {
        let vault = Arc::clone(&self.storage.vault);
        Reload::new(self.config.tls.certificates(), vault, self.audit.clone())
    }

    async fn consensus(
        &self,
        runtime: &Handle,
        beginning: Option<Beginning>,
    ) -> Result<Consensus, StartError> {
        // Under an id that is new, nothing was acknowledged yet.
        if let Some(Beginning::Initialise(_) | Beginning::Joined { .. }) = &beginning {
            self.identity.acknowledged().take_part();
        }
        let log = self.storage.log.clone();
        let state = StateMachine::start(
            Arc::clone(&self.storage.state),
            Arc::clone(&self.storage.snapshots),
            Arc::clone(&self.identity),
            Arc::clone(&self.storage.data_dir),
            (log.clone(), self.storage.gate.clone()),
            self.feed.clone(),
        )?;
        let identity = Arc::clone(&self.identity);
        let stamper = Arc::clone(&self.stamper);
        let observed = self.observed.clone();
        let settings = self.config.tuning.consensus.clone();
        let starting = runtime.spawn(async move {
            let starting = Consensus::start(identity, stamper, observed, &settings, log, state);
            let consensus = starting.await?;
            if let Some(Beginning::Initialise(members)) = beginning {
                consensus.initialize(members).await?;
            }
            Ok::<_, Stopped>(consensus)
        });
        Ok(starting.await.map_err(io::Error::other)??)
    }

    /// What the node knows of the cluster, and changes it through.
    fn cluster(
        &self,
        consensus: &Consensus,
        reader: &Reader,
        disk: Arc<DiskWatch>,
        background: &mut Background,
    ) -> ClusterParts {
        let certificates = self.config.tls.certificates();
        background.run("certificates", certificates.clone().watch());
        let changes = MemberChanges::new(consensus.clone());
        let readiness = Readiness::new(consensus.clone(), Arc::clone(reader.contact()));
        let status = ClusterStatus::new(
            (consensus.clone(), changes.clone(), readiness.clone()),
            self.storage.log.clone(),
            disk,
            Arc::clone(&self.stamper),
            certificates,
        );
        ClusterParts {
            consensus: consensus.clone(),
            changes,
            readiness,
            status,
        }
    }

    fn core(&self, consensus: &Consensus, background: &mut Background) -> Core {
        let disk = DiskWatch::new(self.storage.path.clone(), self.config.disk_reserve_bytes);
        background.run("disk watch", Arc::clone(&disk).run());
        let stamper = Arc::clone(&self.stamper);
        let (proposer, proposing) = Proposer::new(
            consensus.clone(),
            Forwarder::new(consensus.clone()),
            Arc::clone(&stamper),
            Arc::clone(&disk),
            self.storage.log.clone(),
            Arc::clone(&self.storage.state),
        );
        background.run("proposer", proposing);
        let links = PeerLinks::new(consensus.clone());
        let (reader, reading) = Reader::new(
            consensus.clone(),
            links.clone(),
            Arc::clone(&stamper),
            Arc::clone(&self.storage.state),
            proposer.clone(),
        );
        background.run("reader", reading);
        let cluster = self.cluster(consensus, &reader, disk, background);
        let vault = Arc::clone(&self.storage.vault);
        let members = Members::new(consensus.clone(), links, Arc::clone(&vault));
        let switch = Switch::new(
            Arc::clone(&vault),
            members,
            proposer.clone(),
            consensus.clone(),
        );
        let auth = self.config.auth.clone();
        let bounds = self.config.tuning.bounds.clone();
        let access_check =
            AccessCheck::new(auth, Arc::new(reader.clone()), self.audit.clone(), bounds);
        let services = Services::new(
            Arc::new(proposer.clone()),
            (Arc::new(reader.clone()), self.feed.clone()),
            cluster.clone(),
            Digester::new(Arc::clone(&self.storage.state)),
            Arc::new(Metrics::showing(
                &self.observed,
                &self.storage.log.stats().sync_times,
                self.audit.counters(),
            )),
            access_check,
            (Arc::clone(&vault), switch.clone()),
        );
        let running = Running {
            consensus: consensus.clone(),
            changes: cluster.changes.clone(),
            proposer: proposer.clone(),
            stamper: Arc::clone(&self.stamper),
            vault,
            snapshots: Arc::clone(&self.storage.snapshots),
            audit: self.audit.clone(),
        };
        Core {
            cluster,
            proposer,
            reader,
            services,
            switch,
            running,
        }
    }
}
