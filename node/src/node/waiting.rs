//! The ports of a node that takes no part in a cluster yet, or not any more: they say why.

use std::{io, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    background::{Background, Broken},
    listeners::{ClientPorts, Opened},
};
use crate::{
    bounds::Bounds,
    identity::Identity,
    runtime::OwnRuntime,
    service::{
        self, UnreadAnswers, http,
        waiting::{Waiting, routes},
    },
};

/// How long probes under way may take when the node begins to serve.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Answers probes and status until it is ended.
pub(super) struct WaitingRoom {
    stop: CancellationToken,
    ports: Background,
}

impl WaitingRoom {
    /// Serves the client and HTTP ports, which stay open for who comes after.
    pub(super) fn open(
        ports: &ClientPorts<'_>,
        identity: &Arc<Identity>,
        bounds: &Bounds,
        runtime: &OwnRuntime,
    ) -> io::Result<Self> {
        let _in_runtime = runtime.handle().enter();
        let Opened { callers, http } = ports.open()?;
        let waiting = Waiting::new(Arc::clone(identity));
        let stop = CancellationToken::new();
        let mut served = Background::on(runtime.handle());
        let routes = service::to_strangers(routes(&waiting), bounds.clone());
        let stopped = stop.clone().cancelled_owned();
        let unread = UnreadAnswers::default();
        let serving = service::serve(callers, (routes, ports.names.clone()), unread, stopped);
        served.serve("client port", serving);
        let stopped = stop.clone().cancelled_owned();
        served.serve("HTTP port", http::serve_waiting(http, waiting, stopped));
        Ok(Self {
            stop,
            ports: served,
        })
    }

    /// Serves until it cannot any more.
    pub(super) async fn broken(&mut self) -> Broken {
        self.ports.broken().await
    }

    /// Frees the ports for the services.
    pub(super) async fn close(mut self) {
        self.stop.cancel();
        let drained = tokio::time::timeout(DRAIN_LIMIT, self.ports.drained()).await;
        if drained.is_err() {
            self.ports.end().await;
        }
    }
}
