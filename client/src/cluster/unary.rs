//! One try of one call, by itself.

use std::time::Duration;

use helve_proto::v1::{
    call_service_client::CallServiceClient, exchange_answer::Answer, exchange_call::Call,
    handle_service_client::HandleServiceClient, operation::Operation,
    state_service_client::StateServiceClient, transact_service_client::TransactServiceClient,
};
use tonic::{Request, Status};

use crate::cluster::{
    limits::MESSAGE_BYTES_MAX, node_connection::NodeConnection, verdict::Verdict,
};

/// Sends the call, and waits for its answer as long as the node is told.
pub(crate) async fn send(
    channel: NodeConnection,
    call: Call,
    timeout: Duration,
) -> Result<Answer, Verdict> {
    let address = channel.address().clone();
    let has_values = takes(&call);
    tokio::time::timeout(timeout, answer(channel, call, timeout))
        .await
        .map_err(|_elapsed| Verdict::silence(&address))?
        .map_err(|status| {
            let verdict = Verdict::of(&address, &status);
            match has_values {
                true => verdict.of_large_reply(),
                false => verdict.of_small_reply(),
            }
        })
}

/// Whether a call changes something, and its reply holds values.
fn takes(call: &Call) -> bool {
    match call {
        Call::Take(_) | Call::Claim(_) => true,
        Call::Transact(call) => call
            .operations
            .iter()
            .any(|part| matches!(part.operation, Some(Operation::Take(_)))),
        _ => false,
    }
}

async fn answer(channel: NodeConnection, call: Call, timeout: Duration) -> Result<Answer, Status> {
    Ok(match call {
        Call::Mint(call) => {
            let reply = handles(channel).mint(timed(call, timeout)).await?;
            Answer::Mint(reply.into_inner())
        }
        Call::Put(call) => {
            let reply = handles(channel).put(timed(call, timeout)).await?;
            Answer::Put(reply.into_inner())
        }
        Call::Get(call) => {
            let reply = handles(channel).get(timed(call, timeout)).await?;
            Answer::Get(reply.into_inner())
        }
        Call::Take(call) => {
            let reply = handles(channel).take(timed(call, timeout)).await?;
            Answer::Take(reply.into_inner())
        }
        Call::Renew(call) => {
            let reply = handles(channel).renew(timed(call, timeout)).await?;
            Answer::Renew(reply.into_inner())
        }
        Call::Delete(call) => {
            let reply = handles(channel).delete(timed(call, timeout)).await?;
            Answer::Delete(reply.into_inner())
        }
        Call::Claim(call) => {
            let reply = handles(channel).claim(timed(call, timeout)).await?;
            Answer::Claim(reply.into_inner())
        }
        Call::Count(call) => {
            let reply = handles(channel).count(timed(call, timeout)).await?;
            Answer::Count(reply.into_inner())
        }
        Call::Store(call) => {
            let reply = keys(channel).store(timed(call, timeout)).await?;
            Answer::Store(reply.into_inner())
        }
        Call::Retrieve(call) => {
            let reply = keys(channel).retrieve(timed(call, timeout)).await?;
            Answer::Retrieve(reply.into_inner())
        }
        Call::DeleteKey(call) => {
            let reply = keys(channel).delete(timed(call, timeout)).await?;
            Answer::DeleteKey(reply.into_inner())
        }
        Call::Exists(call) => {
            let reply = keys(channel).exists(timed(call, timeout)).await?;
            Answer::Exists(reply.into_inner())
        }
        Call::BatchStore(call) => {
            let reply = keys(channel).batch_store(timed(call, timeout)).await?;
            Answer::BatchStore(reply.into_inner())
        }
        Call::BatchRetrieve(call) => {
            let reply = keys(channel).batch_retrieve(timed(call, timeout)).await?;
            Answer::BatchRetrieve(reply.into_inner())
        }
        Call::Transact(call) => {
            let reply = transactions(channel).transact(timed(call, timeout)).await?;
            Answer::Transact(reply.into_inner())
        }
        Call::OpenSession(call) => {
            let reply = calls(channel).open_session(timed(call, timeout)).await?;
            Answer::OpenSession(reply.into_inner())
        }
    })
}

/// A request that says how long it will be waited for.
pub(crate) fn timed<M>(message: M, timeout: Duration) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(timeout.min(TIMEOUT_MAX));
    request
}

/// The longest time that a node is told. A header of gRPC has room for eight digits.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn handles(channel: NodeConnection) -> HandleServiceClient<NodeConnection> {
    HandleServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

pub(crate) fn keys(channel: NodeConnection) -> StateServiceClient<NodeConnection> {
    StateServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

fn transactions(channel: NodeConnection) -> TransactServiceClient<NodeConnection> {
    TransactServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

fn calls(channel: NodeConnection) -> CallServiceClient<NodeConnection> {
    CallServiceClient::new(channel)
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::{
        self as proto, ClaimRequest, DeleteOperation, GetRequest, PutRequest, TakeOperation,
        TakeRequest, TransactRequest,
    };

    use super::*;

    #[test]
    fn time_that_no_header_has_room_for_is_told_as_a_day() {
        let request = timed((), Duration::MAX);
        let told = request.metadata().get("grpc-timeout").unwrap();
        assert_eq!(told, "86400000m");
    }

    #[test]
    fn only_calls_that_take_have_values_in_their_replies() {
        let transact = |operation| {
            Call::Transact(TransactRequest {
                identity: None,
                operations: vec![proto::Operation {
                    operation: Some(operation),
                }],
            })
        };
        let (take, delete) = (TakeOperation::default(), DeleteOperation::default());
        for (call, expected) in [
            (Call::Take(TakeRequest::default()), true),
            (Call::Claim(ClaimRequest::default()), true),
            (transact(Operation::Take(take)), true),
            (transact(Operation::Delete(delete)), false),
            (Call::Put(PutRequest::default()), false),
            // It changes nothing: what was refused may be said at once.
            (Call::Get(GetRequest::default()), false),
        ] {
            assert_eq!(takes(&call), expected, "{call:?}");
        }
    }
}
