//! How a node starts.

#[cfg(test)]
pub(super) mod alone;
mod beside;
mod disk;
mod place;
mod rows;
mod storage;
mod traces;

use std::{io, sync::Arc};

use helve_machine::level;
use helve_proto::peer::v1::NodeRecord;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use self::storage::Storage;
use super::{
    Addresses, Node, Tasks,
    background::Background,
    close,
    listeners::{ClientPorts, Listeners, serve_clients},
    refusal::StartError,
    reload::Reload,
};
use crate::{
    audit::Audit,
    change_feed::ChangeFeed,
    cluster_status::ClusterStatus,
    config::Config,
    digest::Digester,
    disk_watch::DiskWatch,
    forward::Forwarder,
    identity::Identity,
    membership::{MemberChanges, bootstrap::Beginning},
    metrics::{Metrics, Observed},
    peer_channel::Dialler,
    peer_links::PeerLinks,
    propose::Proposer,
    raft::{Consensus, Stopped, state_machine::StateMachine},
    read_index::Reader,
    readiness::Readiness,
    runtime::OwnRuntime,
    service::{AccessCheck, ClusterParts, Services, peer::Running},
    stamp::Stamper,
    traces::Traces,
    vault::{Members, Switch},
};

pub(super) async fn start(
    config: Config,
    stop: &CancellationToken,
) -> Result<Option<Node>, StartError> {
    let (storage, audit) = open(&config).await?;
    if stop.is_cancelled() {
        close(audit, storage.log.clone(), Arc::clone(&storage.state)).await;
        return Ok(None);
    }
    let listeners = Listeners::bind(&config)?;
    let addresses = listeners.addresses()?;
    let raft_runtime = OwnRuntime::start("helve-raft", config.tuning.raft_threads)?;
    let service_runtime = OwnRuntime::start("helve-service", config.tuning.service_threads)?;
    let identity = Arc::new(identify(&config, &storage, &addresses));
    let ports = ClientPorts::of(&listeners, config.tls.client.clone());
    let runtimes = (&raft_runtime, &service_runtime);
    let taking = place::take(&config, &storage, &identity, (&listeners, &ports), runtimes);
    let place = tokio::select! {
        place = taking => Some(place?),
        () = stop.cancelled() => None,
    };
    let Some(place) = place else {
        close(audit, storage.log.clone(), Arc::clone(&storage.state)).await;
        return Ok(None);
    };
    let runtime = service_runtime.handle();
    let observed = Observed::at(listeners.ports.clone());
    let uuid = &storage.known.uuid;
    let parts = Parts {
        traces: traces::begin(&config, uuid, observed.traces(), runtime)?,
        feed: ChangeFeed::new(config.tuning.watch_window_bytes),
        config,
        storage,
        identity,
        audit,
        stamper: Arc::default(),
        observed,
    };
    let taking_up = parts.consensus(raft_runtime.handle(), place.beginning);
    let consensus = taking_up.await?;
    let mut background = Background::on(runtime);
    let core = parts.core(&consensus, &mut background);
    place.running.send_replace(Some(core.running.clone()));
    let (misplaced, keyless) = parts.background(&core, &mut background);
    let clients_stop = CancellationToken::new();
    let client_ports = serve_clients(&ports, &core.services, &clients_stop, runtime)?;
    let tasks = Tasks {
        background,
        client_ports,
        peer_port: place.port,
    };
    Ok(Some(Node {
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
        peers_stop: place.port_stop,
        tasks: tasks.into(),
        _running: place.running,
        _service_runtime: service_runtime,
        _raft_runtime: raft_runtime,
    }))
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
    let mut identity = Identity::new(record, known.node_id, known.cluster_id.clone())
        .recovered_from(known.former_cluster_id.clone())
        .dialling(Dialler::new(config.tls.peer.clone()));
    identity.is_learner = config.learner;
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

/// What the running parts are made of.
struct Parts {
    config: Config,
    storage: Storage,
    identity: Arc<Identity>,
    audit: Audit,
    stamper: Arc<Stamper>,
    observed: Observed,
    feed: ChangeFeed,
    traces: Traces,
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
        let hold = Arc::clone(&self.storage.hold);
        let starting = runtime.spawn(async move {
            let starting =
                Consensus::start(identity, stamper, observed, &settings, log, state, hold);
            let consensus = starting.await?;
            if let Some(Beginning::Initialise(members)) = beginning {
                consensus.initialize(members).await?;
            }
            Ok::<_, Stopped>(consensus)
        });
        let consensus = starting.await.map_err(io::Error::other)??;
        if let Err(refused) = place::check_learner(&consensus).await {
            let Storage { log, state, .. } = &self.storage;
            close(self.audit.clone(), log.clone(), Arc::clone(state)).await;
            return Err(refused);
        }
        Ok(consensus)
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
            self.traces.clone(),
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
            (
                Digester::new(Arc::clone(&self.storage.state)),
                Arc::clone(&self.storage.snapshots),
            ),
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
            services: Arc::clone(&services),
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
