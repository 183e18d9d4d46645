//! The three ports of a node.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use futures::Stream;
use helve_proto::{is_loopback, peer::v1::peer_service_server::PeerServiceServer};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::{Addresses, StartError, background::Background, exposure};
use crate::{
    config::Config,
    connections::{self, Bounds, Connection, PortUse},
    limits::{
        CONNECTION_RESETS_FORCED_MAX, CONNECTION_RESETS_PENDING_MAX, HEADER_LIST_BYTES_MAX,
        PEER_MESSAGE_BYTES_MAX,
    },
    metrics::Ports,
    service::{
        self, NodeNames, Services,
        http::{self, HttpPort},
        peer::PeerServer,
    },
    tls::PortTls,
};

/// The ports, taken before anything else starts, so that one in use is found at once.
pub(super) struct Listeners {
    pub(super) client: TcpListener,
    pub(super) peer: TcpListener,
    pub(super) http: TcpListener,
    pub(super) ports: Ports,
    names: NodeNames,
    /// The names of the console, if there is one.
    console: Option<NodeNames>,
}

fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address);
    let listener = listener.map_err(|error| StartError::Listen {
        flag,
        address,
        error,
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Listeners {
    pub(super) fn bind(config: &Config) -> Result<Self, StartError> {
        exposure::say(&config.exposed);
        let ports = Ports::default();
        Ok(Self {
            client: bind("--listen", config.listen)?,
            peer: bind("--peer-listen", config.peer_listen)?,
            http: bind("--http-listen", config.http_listen)?,
            names: NodeNames::of(config, ports.names_refused.clone()),
            console: config
                .console
                .then(|| NodeNames::of_console(config, ports.names_refused.clone())),
            ports,
        })
    }

    pub(super) fn addresses(&self) -> io::Result<Addresses> {
        Ok(Addresses {
            client: self.client.local_addr()?,
            peer: self.peer.local_addr()?,
            http: self.http.local_addr()?,
        })
    }
}

/// Serves the peer port until `stop` is cancelled.
pub(super) async fn serve_peers(
    listener: TcpListener,
    (tls, port_use): (Option<Arc<PortTls>>, PortUse),
    server: PeerServer,
    stop: CancellationToken,
) -> io::Result<()> {
    let service = PeerServiceServer::new(server)
        .max_decoding_message_size(PEER_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(PEER_MESSAGE_BYTES_MAX);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Server::builder()
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .http2_max_header_list_size(HEADER_LIST_BYTES_MAX)
        // Calls that time out while this node stalls must not end the others on their connection.
        .http2_max_pending_accept_reset_streams(Some(CONNECTION_RESETS_PENDING_MAX))
        .http2_max_local_error_reset_streams(Some(CONNECTION_RESETS_FORCED_MAX))
        .http2_keepalive_interval(Some(Duration::from_secs(2)))
        .http2_keepalive_timeout(Some(Duration::from_secs(2)))
        .add_service(service)
        .serve_with_incoming_shutdown(
            connections::let_in(listener, tls, Bounds::of_peers(&port_use)),
            stop.cancelled(),
        )
        .await
        .map_err(io::Error::other)
}

/// The ports that are not for nodes, as they are served for a while: first by who waits, then by the services.
pub(super) struct ClientPorts<'a> {
    client: &'a TcpListener,
    http: &'a TcpListener,
    pub(super) tls: Option<Arc<PortTls>>,
    pub(super) port_use: &'a PortUse,
    pub(super) names: &'a NodeNames,
    console: Option<&'a NodeNames>,
}

/// What comes in at them.
pub(super) struct Opened<S> {
    pub(super) callers: S,
    pub(super) http: HttpPort,
}

impl<'a> ClientPorts<'a> {
    /// Those of the listeners.
    pub(super) fn of(listeners: &'a Listeners, tls: Option<Arc<PortTls>>) -> Self {
        Self {
            client: &listeners.client,
            http: &listeners.http,
            tls,
            port_use: &listeners.ports.client,
            names: &listeners.names,
            console: listeners.console.as_ref(),
        }
    }

    /// Opens them on the runtime that this is called in. The listeners stay open for who comes after.
    pub(super) fn open(
        &self,
    ) -> io::Result<Opened<impl Stream<Item = io::Result<Connection>> + Send + 'static>> {
        let client = tokio::net::TcpListener::from_std(self.client.try_clone()?)?;
        let http = self.http.try_clone()?;
        // Within the machine probes need no certificates; CockroachDB and others have it so, too.
        let beyond = !is_loopback(http.local_addr()?.ip());
        Ok(Opened {
            callers: connections::let_in(
                client,
                self.tls.clone(),
                Bounds::of_clients(self.port_use),
            ),
            http: HttpPort {
                listener: tokio::net::TcpListener::from_std(http)?,
                tls: self.tls.clone().filter(|_| beyond),
            },
        })
    }
}

/// Serves the client and HTTP ports until `stop` is cancelled; that ends when the calls under way have.
pub(super) fn serve_clients(
    ports: &ClientPorts<'_>,
    services: &Arc<Services>,
    stop: &CancellationToken,
    runtime: &Handle,
) -> io::Result<Background> {
    let _in_runtime = runtime.enter();
    let Opened { callers, http } = ports.open()?;
    let mut served = Background::on(runtime);
    let direct_routes = service::direct_routes(services);
    let stopped = stop.clone().cancelled_owned();
    let routes = (direct_routes, ports.names.clone());
    let serving = service::serve(callers, routes, services.unread(), stopped);
    served.serve("client port", serving);
    let (stopped, services) = (stop.clone().cancelled_owned(), Arc::clone(services));
    let serving = http::serve(http, services, ports.console.cloned(), stopped);
    served.serve("HTTP port", serving);
    Ok(served)
}
