//! Answers that are asked for and not read.

use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;
use futures::StreamExt as _;
use helve_client::{Bearer, NodeConnection};
use helve_proto::v1::{
    BatchRetrieveRequest, ExchangeCall, ExchangeReply, ExchangeRequest, GetRequest, StoreRequest,
    call_service_client::CallServiceClient, exchange_call::Call,
};
use tonic::{Streaming, transport::Endpoint};

use crate::caller::Caller;

/// Of HTTP/2, before its callers say otherwise (RFC 9113, 6.9.2).
pub(super) const WINDOW_BYTES: u32 = 65_535;

/// A read of this many keys.
#[must_use]
pub fn all(keys: usize) -> BatchRetrieveRequest {
    BatchRetrieveRequest {
        keys: (0..keys).map(|key| format!("large/{key}")).collect(),
        ..BatchRetrieveRequest::default()
    }
}

/// Stores values of this many bytes under this many keys.
///
/// # Errors
///
/// If the node refuses.
pub async fn store_all(caller: &Caller, keys: usize, bytes: usize) -> Result<()> {
    for key in all(keys).keys {
        let store = StoreRequest {
            key,
            value: Bytes::from(vec![7; bytes]),
            ..StoreRequest::default()
        };
        caller.store(store).await?;
    }
    Ok(())
}

/// A stream whose answers are not read. It ends when it is dropped.
pub struct Unread {
    /// The answers.
    pub answers: Streaming<ExchangeReply>,
}

/// Asks for all keys this many times over one stream, in one small message, and reads nothing.
///
/// # Errors
///
/// If the stream does not open.
pub async fn unread(
    address: SocketAddr,
    bearer: &Bearer,
    calls: usize,
    keys: usize,
) -> Result<Unread> {
    let call = Call::BatchRetrieve(all(keys));
    unread_calls(address, bearer, (1, calls), call).await
}

/// Makes calls over one stream that are refused at once, this many in each of some small messages, and
/// reads nothing of why: together the answers are more than its window takes.
///
/// # Errors
///
/// If the stream does not open.
pub async fn unread_refusals(address: SocketAddr, bearer: &Bearer, calls: usize) -> Result<Unread> {
    // Names have no capital letters.
    let call = Call::Get(GetRequest {
        store: "CARTS".to_owned(),
        id: "1".to_owned(),
        ..GetRequest::default()
    });
    unread_calls(address, bearer, (10, calls), call).await
}

async fn unread_calls(
    address: SocketAddr,
    bearer: &Bearer,
    (messages, calls): (usize, usize),
    call: Call,
) -> Result<Unread> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let line = NodeConnection::new(address.to_string(), endpoint.connect().await?, bearer);
    let calls = (0..calls).map(|correlation_id| ExchangeCall {
        correlation_id: correlation_id as u64,
        timeout_ms: 60_000,
        call: Some(call.clone()),
    });
    let batch = ExchangeRequest {
        calls: calls.collect(),
    };
    let batches = futures::stream::iter(vec![batch; messages]).chain(futures::stream::pending());
    let answers = CallServiceClient::new(line).exchange(batches).await?;
    Ok(Unread {
        answers: answers.into_inner(),
    })
}
