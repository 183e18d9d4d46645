//! Connections between nodes.

pub(crate) mod address_book;
mod connector;

use std::{sync::Arc, time::Duration};

use helve_proto::peer::v1::peer_service_client::PeerServiceClient;
use tonic::transport::{Channel, Endpoint};

use self::connector::Connector;
use crate::{limits::PEER_MESSAGE_BYTES_MAX, log_throttle::LogThrottle, tls::PortTls};

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(500);

/// How long it may take with its TLS handshake.
const TLS_CONNECT_TIME_MAX: Duration = Duration::from_secs(1);

/// How this node connects to the others: over mutual TLS, or in plain text by default.
#[derive(Debug, Clone, Default)]
pub struct Dialler {
    tls: Option<Arc<PortTls>>,
    log_throttle: Arc<LogThrottle>,
}

impl Dialler {
    /// Connects as this port does; without one in plain text.
    #[must_use]
    pub fn new(tls: Option<Arc<PortTls>>) -> Self {
        Self {
            tls,
            log_throttle: Arc::default(),
        }
    }

    /// A channel that connects when it is first used, and again whenever the connection is lost.
    ///
    /// An address that is no address gives a channel on which every call fails: addresses come from the configuration, which was
    /// checked, or from a peer, whose mistake must not stop this node.
    #[must_use]
    pub(crate) fn lazy(&self, address: &str) -> Channel {
        // The scheme is no more than a URI needs: what is logged is up to the connector.
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .unwrap_or_else(|_| Endpoint::from_static("http://0.0.0.0:0"))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(1))
            .keep_alive_timeout(Duration::from_secs(2))
            .keep_alive_while_idle(true)
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(8 << 20);
        match &self.tls {
            None => endpoint.connect_timeout(CONNECT_TIME_MAX).connect_lazy(),
            Some(tls) => endpoint
                .connect_timeout(TLS_CONNECT_TIME_MAX)
                .connect_with_connector_lazy(Connector::new(
                    Arc::clone(tls),
                    Arc::clone(&self.log_throttle),
                )),
        }
    }

    /// A client of the peer service at this address.
    #[must_use]
    pub(crate) fn client(&self, address: &str) -> PeerServiceClient<Channel> {
        client(self.lazy(address))
    }
}

/// A client of the peer service with the limits that nodes agree on.
#[must_use]
pub(crate) fn client(channel: Channel) -> PeerServiceClient<Channel> {
    PeerServiceClient::new(channel)
        .max_decoding_message_size(PEER_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(PEER_MESSAGE_BYTES_MAX)
}
