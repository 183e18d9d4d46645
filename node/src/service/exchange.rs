//! `CallService.Exchange`: many calls over one stream, each answered when it is ready, in batches that form by themselves.
//!
//! One task a stream reads batches, carries their calls out side by side, and sends whatever answers are ready together. At the bound
//! of calls under way it begins no more of them, and reads no further batch until those of the last one have begun, so that HTTP/2's
//! flow control slows the caller down.

use std::{collections::VecDeque, future, sync::Arc};

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
    audited::{self, Peer},
    caller::Caller,
    door::may_call,
    failure::{Failure, Lateness},
    status::Problem,
};
use crate::limits;

/// Who calls, and from where.
type Origin = (Arc<Caller>, Peer);

/// Why a stream ends: `Ok` when the caller ended it.
type End = Result<(), Failure>;

/// The calls of one stream, in the order of their arrival.
#[derive(Default)]
struct Calls {
    under_way: FuturesUnordered<BoxFuture<'static, ExchangeAnswer>>,
    /// What came in the last batch and has not begun: a future that is not polled does nothing.
    waiting: VecDeque<BoxFuture<'static, ExchangeAnswer>>,
}

impl Calls {
    /// Lets those begin that the bound allows.
    fn begin(&mut self) {
        let room = limits::EXCHANGE_CALLS_IN_FLIGHT_MAX - self.under_way.len();
        let next = self.waiting.drain(..room.min(self.waiting.len()));
        self.under_way.extend(next);
    }

    /// The next that ends; `None` if there are none.
    async fn next(&mut self) -> Option<ExchangeAnswer> {
        self.begin();
        self.under_way.next().await
    }
}

/// Starts to serve a stream. Dropping the answers ends it.
pub(crate) fn start(
    services: Arc<Services>,
    from: Origin,
    calls: Streaming<ExchangeRequest>,
) -> BoxStream<'static, Result<ExchangeReply, Status>> {
    let (out, replies) = mpsc::channel(1);
    let end = stream::once(AbortOnDropHandle::new(tokio::spawn(serve(
        services, from, calls, out,
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
    from: Origin,
    mut calls: Streaming<ExchangeRequest>,
    out: mpsc::Sender<ExchangeReply>,
) -> End {
    let _open = services.metrics.exchange();
    let mut pending = Calls::default();
    loop {
        pending.begin();
        let has_room = pending.under_way.len() < limits::EXCHANGE_CALLS_IN_FLIGHT_MAX;
        tokio::select! {
            // Answers first: what is finished should not wait behind what only begins.
            biased;
            Some(first) = pending.next() => {
                send(&out, gather(first, &mut pending)).await?;
            }
            batch = calls.message(), if has_room => {
                match batch {
                    Ok(Some(batch)) => {
                        if let Err(shut_out) = services.door.again(&from.0).await {
                            drain(&mut pending, &out).await?;
                            return Err(shut_out);
                        }
                        take(&services, &from, batch, &mut pending)?;
                    }
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

/// Takes in the calls of a batch. The time that each has runs from now on.
fn take(
    services: &Arc<Services>,
    from: &Origin,
    batch: ExchangeRequest,
    pending: &mut Calls,
) -> End {
    if batch.calls.len() > limits::EXCHANGE_BATCH_CALLS_MAX {
        let message = format!(
            "a batch has at most {} calls",
            limits::EXCHANGE_BATCH_CALLS_MAX
        );
        return Err(Failure::Malformed(message));
    }
    let now = Instant::now();
    let calls = batch.calls.into_iter();
    pending.waiting.extend(calls.map(|call| {
        let deadline = deadline_after(call.timeout_ms, now);
        answer(Arc::clone(services), from.clone(), call, deadline)
    }));
    Ok(())
}

/// Gathers this answer and all others that are ready now, up to the size of a batch.
fn gather(first: ExchangeAnswer, pending: &mut Calls) -> ExchangeReply {
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
async fn drain(pending: &mut Calls, out: &mpsc::Sender<ExchangeReply>) -> End {
    while let Some(first) = pending.next().await {
        send(out, gather(first, pending)).await?;
    }
    Ok(())
}

/// Carries a call out. Each kind of call has a future of its own size, since as much is moved and cleared for every call.
fn answer(
    services: Arc<Services>,
    from: Origin,
    call: ExchangeCall,
    deadline: Instant,
) -> BoxFuture<'static, ExchangeAnswer> {
    let correlation_id = call.correlation_id;
    let answered = move |answer: Result<Answer, Problem>| ExchangeAnswer {
        correlation_id,
        answer: Some(answer.unwrap_or_else(|problem| Answer::Error(problem.into_reply()))),
    };
    let Some(call) = call.call else {
        let failure = Failure::Malformed("there is no call that this version knows".into());
        return future::ready(answered(Err(failure.into()))).boxed();
    };
    if let Err(failure) = may_call(path(&call), &from.0) {
        let problem = Problem::from(failure);
        let origin = (Some(&*from.0), from.1);
        audited::turned_away(&services.audit, path(&call), origin, problem.reason());
        return future::ready(answered(Err(problem))).boxed();
    }
    /// The answer to a call has the call's name.
    macro_rules! carried_out {
        ($($name:ident)*) => {
            match call {
                $(Call::$name(call) => async move {
                    let answer = services.answer(call, from, Ok(deadline)).await;
                    answered(answer.map(Answer::$name))
                }
                .boxed(),)*
            }
        };
    }
    carried_out!(
        Mint Put Get Take Renew Delete Count
        Store Retrieve DeleteKey Exists BatchStore BatchRetrieve
        Transact OpenSession
    )
}

/// Where the same call is made alone: the rules name it so.
fn path(call: &Call) -> &'static str {
    match call {
        Call::Mint(_) => "/helve.v1.HandleService/Mint",
        Call::Put(_) => "/helve.v1.HandleService/Put",
        Call::Get(_) => "/helve.v1.HandleService/Get",
        Call::Take(_) => "/helve.v1.HandleService/Take",
        Call::Renew(_) => "/helve.v1.HandleService/Renew",
        Call::Delete(_) => "/helve.v1.HandleService/Delete",
        Call::Count(_) => "/helve.v1.HandleService/Count",
        Call::Store(_) => "/helve.v1.StateService/Store",
        Call::Retrieve(_) => "/helve.v1.StateService/Retrieve",
        Call::DeleteKey(_) => "/helve.v1.StateService/Delete",
        Call::Exists(_) => "/helve.v1.StateService/Exists",
        Call::BatchStore(_) => "/helve.v1.StateService/BatchStore",
        Call::BatchRetrieve(_) => "/helve.v1.StateService/BatchRetrieve",
        Call::Transact(_) => "/helve.v1.TransactService/Transact",
        Call::OpenSession(_) => "/helve.v1.CallService/OpenSession",
    }
}

#[cfg(test)]
mod tests;
