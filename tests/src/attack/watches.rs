//! Watches that are opened and not read, while much changes.

use std::net::SocketAddr;

use anyhow::Result;
use futures::future::join_all;
use helve_client::{Bearer, NodeConnection};
use helve_proto::v1::{
    BatchStoreRequest, StoreItem, WatchKeys, WatchReply, WatchRequest,
    watch_request::Target as Watched, watch_service_client::WatchServiceClient,
};
use tonic::{Status, Streaming, transport::Endpoint};

use super::answers::WINDOW_BYTES;
use crate::caller::{Caller, new_identity};

/// Opens this many watches of all shared keys over one connection, and reads nothing of them.
///
/// # Errors
///
/// If the node cannot be connected to.
pub async fn unread(
    address: SocketAddr,
    bearer: &Bearer,
    watches: usize,
) -> Result<Vec<Result<Streaming<WatchReply>, Status>>> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let line = NodeConnection::new(address.to_string(), endpoint.connect().await?, bearer);
    let client = WatchServiceClient::new(line);
    let all = (0..watches).map(|_| {
        let mut client = client.clone();
        let request = WatchRequest {
            target: Some(Watched::Keys(WatchKeys::default())),
            ..WatchRequest::default()
        };
        async move { Ok(client.watch(request).await?.into_inner()) }
    });
    Ok(join_all(all).await)
}

/// Stores this many keys at once, each with a name as long as names may be.
///
/// # Errors
///
/// What the node says.
pub async fn change(caller: &Caller, keys: usize) -> Result<(), Status> {
    let item = |key: usize| StoreItem {
        key: format!("{key:01024}"),
        ..StoreItem::default()
    };
    let store = BatchStoreRequest {
        identity: Some(new_identity()),
        items: (0..keys).map(item).collect(),
        ..BatchStoreRequest::default()
    };
    caller.batch_store(store).await.map(drop)
}
