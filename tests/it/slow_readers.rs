//! Callers that ask for large answers and do not read them.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use helve_node::limits::{ANSWERS_WAITING_BYTES_MAX, MESSAGE_BYTES_MAX};
use helve_proto::v1::{BatchRetrieveReply, BatchRetrieveRequest, StoreRequest};
use helve_tests::{
    caller::{Caller, with_deadline},
    ledger::Ledger,
};
use tonic::{
    Code, Status, Streaming,
    client::Grpc,
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::nodes;

const VALUE_BYTES: usize = 1 << 20;
const KEYS: usize = 3;
/// Of HTTP/2, before its callers say otherwise (RFC 9113, 6.9.2).
const WINDOW_BYTES: u32 = 65_535;

fn all() -> BatchRetrieveRequest {
    BatchRetrieveRequest {
        keys: (0..KEYS).map(|key| format!("large/{key}")).collect(),
        ..BatchRetrieveRequest::default()
    }
}

async fn store_all(caller: &Caller) -> Result<()> {
    for key in all().keys {
        let store = StoreRequest {
            key,
            value: Bytes::from(vec![7; VALUE_BYTES]),
            ..StoreRequest::default()
        };
        caller.store(store).await?;
    }
    Ok(())
}

/// Asks for all, and reads nothing of the answer but that there is one.
async fn unread(channel: &Channel) -> Result<Streaming<BatchRetrieveReply>, Status> {
    let mut caller = Grpc::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    caller
        .ready()
        .await
        .map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static("/helve.v1.StateService/BatchRetrieve");
    let codec = ProstCodec::<BatchRetrieveRequest, BatchRetrieveReply>::default();
    let answer = caller.server_streaming(with_deadline(all()), path, codec);
    Ok(answer.await?.into_inner())
}

#[tokio::test]
async fn unread_answers_are_bounded_and_other_readers_go_on() -> Result<()> {
    // Room for more than may be left unread: what is unread is bounded by itself.
    let room = 4 * ANSWERS_WAITING_BYTES_MAX;
    let bounds = format!("node-answer-bytes={room},address-answer-bytes={room}");
    let cluster = nodes(1).with("HELVE_BOUNDS", &bounds).start().await?;
    store_all(&cluster.caller(1)).await?;
    let address = format!("http://{}", cluster.listeners(1).client);
    // Each stream has little room, and the connection has room for all of them.
    let endpoint = Endpoint::from_shared(address)?
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(1 << 30);
    let channel = endpoint.connect().await?;
    // What the transport has taken of an answer does not wait: less than a value.
    let fit = ANSWERS_WAITING_BYTES_MAX / ((KEYS - 1) * VALUE_BYTES);
    let over = 4;
    let mut answers = Vec::new();
    for _ in 0..fit + over {
        answers.push(unread(&channel).await?);
    }
    // Others are served, large answers as well, and so are other calls of the same connection.
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let mut large = unread(&channel).await?;
    let reply = large.message().await?.context("an answer")?;
    ensure!(reply.keys.len() == KEYS, "{} keys", reply.keys.len());
    // Those that had waited longest were given up.
    for answer in &mut answers[..over] {
        let given_up = answer.message().await.err().context("it was kept")?;
        ensure!(given_up.code() == Code::Cancelled, "{given_up}");
    }
    let last = answers.last_mut().context("there are some")?;
    let reply = last.message().await?.context("an answer")?;
    ensure!(reply.keys.len() == KEYS, "{} keys", reply.keys.len());
    ledger.check(&cluster).await
}
