//! `CallService.Exchange`: many calls over one stream, each answered when it is ready, in batches that form by themselves.
//!
//! One task a stream reads batches, carries their calls out side by side, and sends whatever answers are ready together. At the bound
//! of calls under way it stops reading, so that HTTP/2's flow control slows the caller down.

use std::{future, sync::Arc};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesUnordered},
};
use helve_proto::v1::{
    ExchangeAnswer, ExchangeCall, ExchangeReply, ExchangeRequest, exchange_answer::Answer,
    exchange_call::Call,
};
use prost::Message;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, Streaming};

use super::{
    Services,
    admit::deadline_after,
    failure::{Failure, Lateness},
    status::Problem,
};
use crate::limits;

/// Why a stream ends: `Ok` when the caller ended it.
type End = Result<(), Failure>;

type Pending = FuturesUnordered<BoxFuture<'static, ExchangeAnswer>>;

/// Starts to serve a stream. Dropping the answers ends it.
pub(crate) fn start(
    services: Arc<Services>,
    calls: Streaming<ExchangeRequest>,
) -> BoxStream<'static, Result<ExchangeReply, Status>> {
    let (out, replies) = mpsc::channel(1);
    let end = stream::once(AbortOnDropHandle::new(tokio::spawn(serve(
        services, calls, out,
    ))));
    let end = end.filter_map(|joined| {
        future::ready(match joined {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(Err(failure.into())),
            // What it had begun may have been done.
            Err(error) => Some(Err(Failure::Ambiguous {
                detail: format!("a stream broke: {error}"),
                late: Lateness::InTime,
            }
            .into())),
        })
    });
    ReceiverStream::new(replies).map(Ok).chain(end).boxed()
}

async fn serve(
    services: Arc<Services>,
    mut calls: Streaming<ExchangeRequest>,
    out: mpsc::Sender<ExchangeReply>,
) -> End {
    let _open = services.metrics.exchange();
    let mut pending = Pending::new();
    loop {
        tokio::select! {
            // Answers first: what is finished should not wait behind what only begins.
            biased;
            Some(first) = pending.next(), if !pending.is_empty() => {
                send(&out, gather(first, &mut pending)).await?;
            }
            batch = calls.message(), if pending.len() < limits::EXCHANGE_CALLS_IN_FLIGHT_MAX => {
                match batch {
                    Ok(Some(batch)) => begin(&services, batch, &pending)?,
                    Ok(None) => return drain(&mut pending, &out).await,
                    // A caller that has gone reads no answers; one whose message was too large or garbage is owed those under way.
                    Err(status) => {
                        drain(&mut pending, &out).await?;
                        let message = format!("a message could not be read: {}", status.message());
                        return Err(Failure::Malformed(message));
                    }
                }
            }
            () = services.stopping.cancelled() => {
                drain(&mut pending, &out).await?;
                return Err(Failure::Stopping("it is shutting down".into()));
            }
        }
    }
}

/// Begins to carry out the calls of a batch.
fn begin(services: &Arc<Services>, batch: ExchangeRequest, pending: &Pending) -> End {
    if batch.calls.len() > limits::EXCHANGE_BATCH_CALLS_MAX {
        let message = format!(
            "a batch has at most {} calls",
            limits::EXCHANGE_BATCH_CALLS_MAX
        );
        return Err(Failure::Malformed(message));
    }
    for call in batch.calls {
        pending.push(answer(Arc::clone(services), call).boxed());
    }
    Ok(())
}

/// Gathers this answer and all others that are ready now, up to the size of a batch.
fn gather(first: ExchangeAnswer, pending: &mut Pending) -> ExchangeReply {
    let mut bytes = first.encoded_len();
    let mut answers = vec![first];
    while answers.len() < limits::EXCHANGE_BATCH_ANSWERS_MAX
        && bytes < limits::EXCHANGE_BATCH_BYTES_MAX
    {
        let Some(Some(next)) = pending.next().now_or_never() else {
            break;
        };
        bytes += next.encoded_len();
        answers.push(next);
    }
    ExchangeReply { answers }
}

/// Sends a batch of answers, and gives up on a caller that does not read.
async fn send(out: &mpsc::Sender<ExchangeReply>, reply: ExchangeReply) -> End {
    // That the stream is closed shows when the next batch is read.
    timeout(limits::EXCHANGE_STALL_MAX, out.send(reply))
        .await
        .map_or_else(
            |_| {
                let detail = "answers were left unread for too long".to_owned();
                Err(Failure::Ambiguous {
                    detail,
                    late: Lateness::InTime,
                })
            },
            |_| Ok(()),
        )
}

/// Answers all that is under way. Each call has a deadline, so this ends.
async fn drain(pending: &mut Pending, out: &mpsc::Sender<ExchangeReply>) -> End {
    while let Some(first) = pending.next().await {
        send(out, gather(first, pending)).await?;
    }
    Ok(())
}

async fn answer(services: Arc<Services>, call: ExchangeCall) -> ExchangeAnswer {
    let correlation_id = call.correlation_id;
    let deadline = deadline_after(call.timeout_ms, Instant::now());
    let answer = match call.call {
        Some(call) => carry_out(&services, call, deadline).await,
        None => Err(Failure::Malformed("there is no call that this version knows".into()).into()),
    };
    let answer = answer.unwrap_or_else(|problem| Answer::Error(problem.into_reply()));
    ExchangeAnswer {
        correlation_id,
        answer: Some(answer),
    }
}

async fn carry_out(services: &Services, call: Call, deadline: Instant) -> Result<Answer, Problem> {
    let deadline = Ok(deadline);
    match call {
        Call::Mint(call) => services.answer(call, deadline).await.map(Answer::Mint),
        Call::Put(call) => services.answer(call, deadline).await.map(Answer::Put),
        Call::Get(call) => services.answer(call, deadline).await.map(Answer::Get),
        Call::Take(call) => services.answer(call, deadline).await.map(Answer::Take),
        Call::Renew(call) => services.answer(call, deadline).await.map(Answer::Renew),
        Call::Delete(call) => services.answer(call, deadline).await.map(Answer::Delete),
        Call::Count(call) => services.answer(call, deadline).await.map(Answer::Count),
        Call::Store(call) => services.answer(call, deadline).await.map(Answer::Store),
        Call::Retrieve(call) => services.answer(call, deadline).await.map(Answer::Retrieve),
        Call::DeleteKey(call) => services.answer(call, deadline).await.map(Answer::DeleteKey),
        Call::Exists(call) => services.answer(call, deadline).await.map(Answer::Exists),
        Call::BatchStore(call) => services
            .answer(call, deadline)
            .await
            .map(Answer::BatchStore),
        Call::BatchRetrieve(call) => services
            .answer(call, deadline)
            .await
            .map(Answer::BatchRetrieve),
        Call::Transact(call) => services.answer(call, deadline).await.map(Answer::Transact),
        Call::OpenSession(call) => services
            .answer(call, deadline)
            .await
            .map(Answer::OpenSession),
    }
}
