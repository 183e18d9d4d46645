//! Answers that are asked for and not read.

use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;
use futures::StreamExt as _;
use helve_client::{Bearer, NodeConnection};
use helve_proto::v1::{
    BatchRetrieveRequest, ExchangeCall, ExchangeReply, ExchangeRequest, StoreRequest,
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
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    let line = NodeConnection::new(address.to_string(), endpoint.connect().await?, bearer);
    let calls = (0..calls).map(|call| ExchangeCall {
        correlation_id: call as u64,
        timeout_ms: 60_000,
        call: Some(Call::BatchRetrieve(all(keys))),
    });
    let batch = ExchangeRequest {
        calls: calls.collect(),
    };
    let batches = futures::stream::iter([batch]).chain(futures::stream::pending());
    let answers = CallServiceClient::new(line).exchange(batches).await?;
    Ok(Unread {
        answers: answers.into_inner(),
    })
}
