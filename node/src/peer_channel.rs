//! Connections between nodes.

use std::time::Duration;

use helve_proto::peer::v1::peer_service_client::PeerServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::limits::PEER_MESSAGE_BYTES_MAX;

/// A channel that connects when it is first used, and again whenever the connection is lost.
///
/// An address that is no address gives a channel on which every call fails: addresses come from the configuration, which was
/// checked, or from a peer, whose mistake must not stop this node.
#[must_use]
pub(crate) fn lazy(address: &str) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .unwrap_or_else(|_| Endpoint::from_static("http://0.0.0.0:0"));
    endpoint
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_millis(500))
        .http2_keep_alive_interval(Duration::from_secs(1))
        .keep_alive_timeout(Duration::from_secs(2))
        .keep_alive_while_idle(true)
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .connect_lazy()
}

/// A client of the peer service with the limits that nodes agree on.
#[must_use]
pub(crate) fn client(channel: Channel) -> PeerServiceClient<Channel> {
    PeerServiceClient::new(channel)
        .max_decoding_message_size(PEER_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(PEER_MESSAGE_BYTES_MAX)
}
