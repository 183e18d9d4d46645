//! The place of a node in its cluster, which it asks its peers for before consensus starts.

use std::{
    io,
    sync::{Arc, PoisonError},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        background::Background,
        listeners::{ClientPorts, Listeners, serve_peers},
        refusal::StartError,
        waiting::WaitingRoom,
    },
    storage::Storage,
};
use crate::{
    config::{Bootstrap, Config, Refusal},
    identity::{Identity, REMOVED},
    membership::{
        bootstrap::{self, Beginning, NotBegun},
        forced::Force,
        misplaced,
    },
    raft::Consensus,
    runtime::OwnRuntime,
    service::peer::{PeerServer, Running},
};

/// Where a node begins, and the port at which its peers reach it.
pub(super) struct Place {
    /// `None` if it has been a member before.
    pub(super) beginning: Option<Beginning>,
    /// The peer server asks it for the running parts.
    pub(super) running: watch::Sender<Option<Running>>,
    pub(super) port: Background,
    /// Closes the port.
    pub(super) port_stop: CancellationToken,
}

/// Serves the peer port, and finds the node's place with the peers' help, which may take any time. Never returns a place to a node that
/// must not take part. May be dropped: nothing that it waits for works in the storage engine.
///
/// # Errors
/// If there is no place for this node, or a port cannot be served.
pub(super) async fn take(
    config: &Config,
    storage: &Storage,
    identity: &Arc<Identity>,
    (listeners, ports): (&Listeners, &ClientPorts<'_>),
    (raft_runtime, service_runtime): (&OwnRuntime, &OwnRuntime),
) -> Result<Place, StartError> {
    let waiting = || WaitingRoom::open(ports, identity, &config.tuning.bounds, service_runtime);
    if !identity.may_take_part() {
        let why = identity.put_back().unwrap_or_else(|| REMOVED.to_owned());
        tracing::error!("{why}");
        return Err(waiting()?.broken().await.into());
    }
    let port_stop = CancellationToken::new();
    let (running, running_now) = watch::channel(None);
    let server = PeerServer::new(Arc::clone(identity), running_now);
    let tls = (config.tls.peer.clone(), listeners.ports.peer.clone());
    let peer = listeners.peer.try_clone()?;
    let serving = serve_peers(peer, tls, server, port_stop.clone());
    let mut port = Background::on(raft_runtime.handle());
    port.serve("peer port", serving);
    let beginning = tokio::select! {
        beginning = begin(config, storage, identity, waiting) => beginning?,
        broken = port.broken() => return Err(broken.into()),
    };
    Ok(Place {
        beginning,
        running,
        port,
        port_stop,
    })
}

/// Refuses a node that was started with `--learner`, and votes as its log has it. It takes no part before that.
///
/// # Errors
/// If so, or if consensus stopped.
pub(super) async fn check_learner(consensus: &Consensus) -> Result<(), StartError> {
    let identity = consensus.identity();
    if !identity.is_learner {
        return Ok(());
    }
    // Before consensus has answered something, it shows no members.
    consensus.is_initialized().await?;
    let id = identity.node_id();
    if !consensus.members().voters().contains(&id) {
        return Ok(());
    }
    consensus.shutdown().await;
    Err(Refusal::new(
        "--learner",
        format!("node {id} is a voter of its cluster, and the flag says that it never votes"),
        format!(
            "start it without --learner; to make a learner of it, `helve member remove {id}`, empty --data-dir, start it with --learner, \
             and let it in with `helve member add`"
        ),
    )
    .into())
}

/// How this node begins; `None` if it has been a member before.
async fn begin(
    config: &Config,
    storage: &Storage,
    identity: &Identity,
    waiting: impl FnOnce() -> io::Result<WaitingRoom>,
) -> Result<Option<Beginning>, StartError> {
    let misplaced = |misplaced| StartError::misplaced(&config.data_dir, misplaced);
    let met = misplaced::meet(identity, &config.peers).await;
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
