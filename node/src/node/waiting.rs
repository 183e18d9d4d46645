//! The ports of a node that takes no part in a cluster yet, or not any more: they say why.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    raft::identity::Identity,
    runtime::OwnRuntime,
    service::{
        self, http,
        waiting::{Waiting, routes},
    },
};

/// How long probes under way may take when the node begins to serve.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Answers probes and status until it is ended.
pub(super) struct WaitingRoom {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl WaitingRoom {
    /// Serves the client and HTTP ports, which stay open for who comes after.
    pub(super) fn open(
        [client, probes]: [&TcpListener; 2],
        identity: &Arc<Identity>,
        runtime: &OwnRuntime,
    ) -> io::Result<Self> {
        let _in_runtime = runtime.handle().enter();
        let client = tokio::net::TcpListener::from_std(client.try_clone()?)?;
        let probes = tokio::net::TcpListener::from_std(probes.try_clone()?)?;
        let waiting = Waiting::new(Arc::clone(identity));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (stopped, routes) = (stop.clone().cancelled_owned(), routes(&waiting));
        tasks.spawn(async move {
            if let Err(error) = service::serve(client, routes, stopped).await {
                tracing::error!(%error, "the client port is not served while waiting");
            }
        });
        let stopped = stop.clone().cancelled_owned();
        tasks.spawn(async move {
            if let Err(error) = http::serve_waiting(probes, waiting, stopped).await {
                tracing::error!(%error, "the HTTP port is not served while waiting");
            }
        });
        Ok(Self { stop, tasks })
    }

    /// Serves as long as the process lives.
    pub(super) async fn stay(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }

    /// Frees the ports for the services.
    pub(super) async fn close(mut self) {
        self.stop.cancel();
        let drained = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_LIMIT, drained).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}
