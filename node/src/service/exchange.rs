//! `CallService.Exchange`: many calls over one stream, each answered when it is ready, in batches that form by themselves.
//!
//! One task a stream reads batches, carries their calls out side by side, and sends whatever answers are ready together. At the bound
//! of calls under way it begins no more of them, and reads no further batch until those of the last one have begun, so that HTTP/2's
//! flow control slows the caller down. A stream that nothing comes over for long, with nothing under way, ends.

mod calls;

use std::{fmt, future, pin::Pin, sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use helve_proto::v1::{
    ExchangeAnswer, ExchangeCall, ExchangeReply, ExchangeRequest, exchange_answer::Answer,
    exchange_call::Call,
};
use prost::Message;
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep, sleep_until, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Code, Status, Streaming};

use self::calls::Calls;
use super::{
    Services,
    access_check::may_call,
    account::Account,
    admit::{Origin, deadline_after},
    audited,
    budget::Charge,
    failure::{Failure, Lateness},
    status::Problem,
};
use crate::{bounds::GivenUp, limits};

/// An answer, and what it takes until it has left.
type Answered = (ExchangeAnswer, Option<Charge>);

/// A batch of answers, and what they take until they have left.
type Replied = (ExchangeReply, Vec<Charge>);

/// Answers that go out together.
#[derive(Default)]
struct Batch {
    answers: Vec<ExchangeAnswer>,
    /// What those with values take.
    charges: Vec<Charge>,
    bytes: usize,
    /// Of these, the bytes of answers that nothing is charged for yet.
    replies_bytes: usize,
}

impl Batch {
    fn add(&mut self, (answer, charge): Answered) {
        let bytes = answer.encoded_len();
        self.bytes += bytes;
        match charge {
            Some(charge) => self.charges.push(charge),
            None => self.replies_bytes += bytes,
        }
        self.answers.push(answer);
    }

    fn has_room(&self) -> bool {
        self.answers.len() < limits::EXCHANGE_BATCH_ANSWERS_MAX
            && self.bytes < limits::EXCHANGE_BATCH_BYTES_MAX
            && self.replies_bytes < limits::EXCHANGE_BATCH_REPLIES_BYTES_MAX
    }
}

/// Where the answers of a stream go.
struct Out {
    replies: mpsc::Sender<Replied>,
    account: Arc<Account>,
}

/// Why a stream ends: `Ok` when the caller ended it.
type End = Result<(), Status>;

/// Starts to serve a stream. Dropping the answers ends it.
pub(crate) fn start(
    services: Arc<Services>,
    from: Origin,
    calls: Streaming<ExchangeRequest>,
) -> BoxStream<'static, Result<ExchangeReply, Status>> {
    let (sender, replies) = mpsc::channel(1);
    let account = Arc::clone(&from.account);
    let out = Out {
        replies: sender,
        account: Arc::clone(&account),
    };
    let end = stream::once(AbortOnDropHandle::new(tokio::spawn(serve(
        services, from, calls, out,
    ))));
    let end = end.filter_map(|joined| {
        future::ready(match joined {
            Ok(Ok(())) => None,
            Ok(Err(status)) => Some(Err(status)),
            // What it had begun may have been done.
            Err(error) => Some(Err(Failure::Ambiguous {
                detail: format!("a stream broke: {error}"),
                late: Lateness::InTime,
            }
            .into())),
        })
    });
    let replies = ReceiverStream::new(replies).map(move |(reply, charges): Replied| {
        charges
            .into_iter()
            .for_each(|charge| account.keep_answer(charge));
        Ok(reply)
    });
    replies.chain(end).boxed()
}

async fn serve(
    services: Arc<Services>,
    from: Origin,
    mut calls: Streaming<ExchangeRequest>,
    out: Out,
) -> End {
    let _open = services.metrics.exchange();
    let mut pending = Calls::default();
    let mut idle = Idle::new(from.account.budgets().bounds().exchange_idle);
    loop {
        // Answers first: what is finished should not wait behind what only begins. Without one that
        // is ready, this also lets all calls begin that may, so that another batch can be read.
        if let Some(Some(first)) = pending.next().now_or_never() {
            out.send(gather(first, &mut pending)).await?;
            idle.ends();
            continue;
        }
        let (has_room, is_empty) = (pending.has_room(), pending.is_empty());
        tokio::select! {
            biased;
            Some(first) = pending.next() => {
                out.send(gather(first, &mut pending)).await?;
                idle.ends();
            }
            batch = calls.message(), if has_room => {
                match batch {
                    Ok(Some(batch)) => {
                        idle.ends();
                        if let Err(shut_out) = services.access_check.again(&from.caller).await {
                            drain(&mut pending, &out).await?;
                            return Err(shut_out.into());
                        }
                        take(&services, &from, batch, &mut pending)?;
                    }
                    Ok(None) => return drain(&mut pending, &out).await,
                    // A caller that has gone reads no answers; one whose message was too large or garbage is owed those under way.
                    Err(status) => {
                        drain(&mut pending, &out).await?;
                        if status.code() == Code::ResourceExhausted {
                            return Err(status);
                        }
                        let message = format!("a message could not be read: {}", status.message());
                        return Err(Failure::Malformed(message).into());
                    }
                }
            }
            () = idle.is_over(), if is_empty => {
                from.account.budgets().give_up(GivenUp::Idle);
                return Err(Failure::Idle(idle.time).into());
            }
            () = services.stopping.cancelled() => {
                drain(&mut pending, &out).await?;
                return Err(Failure::Stopping("it is shutting down".into()).into());
            }
        }
    }
}

/// How long nothing has come or gone over a stream.
struct Idle {
    time: Duration,
    until: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Idle {
    fn new(time: Duration) -> Self {
        let until = Instant::now() + time;
        Self {
            time,
            until,
            timer: Box::pin(sleep_until(until)),
        }
    }

    /// Something came or went. The timer is set again only when it fires.
    fn ends(&mut self) {
        self.until = Instant::now() + self.time;
    }

    async fn is_over(&mut self) {
        loop {
            self.timer.as_mut().await;
            if Instant::now() >= self.until {
                return;
            }
            self.timer.as_mut().reset(self.until);
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
        return Err(Failure::Malformed(message).into());
    }
    let now = Instant::now();
    let from = Origin {
        // One message carried all of them, so all of them hold what it takes.
        request: from.account.take_request().map(Arc::new),
        ..from.clone()
    };
    let services = Arc::clone(services);
    let calls = batch.calls.into_iter().map(move |call| {
        let deadline = deadline_after(call.timeout_ms, now);
        answer(Arc::clone(&services), from.clone(), call, deadline)
    });
    pending.take_in(calls);
    Ok(())
}

/// Gathers this answer and all others that are ready now, up to the size of a batch.
fn gather(first: Answered, pending: &mut Calls) -> Batch {
    let mut batch = Batch::default();
    batch.add(first);
    while batch.has_room() {
        let Some(Some(next)) = pending.next().now_or_never() else {
            break;
        };
        batch.add(next);
    }
    batch
}

impl Out {
    /// Sends a batch of answers once there is room for those without values, and gives up on a caller that does not read.
    async fn send(&self, batch: Batch) -> End {
        let unread = |why: &dyn fmt::Display| -> End {
            let detail = format!("answers were left unread for too long{why}");
            let late = Lateness::InTime;
            Err(Failure::Ambiguous { detail, late }.into())
        };
        let until = Instant::now() + limits::EXCHANGE_STALL_MAX;
        let mut charges = batch.charges;
        if batch.replies_bytes > 0 {
            let account = Arc::clone(&self.account);
            match account.wait_for_replies(batch.replies_bytes, until).await {
                Ok(charge) => charges.push(charge),
                Err(full) => {
                    let bound = full.bound();
                    return unread(&format_args!(": {full} (bound {bound})"));
                }
            }
        }
        let reply = ExchangeReply {
            answers: batch.answers,
        };
        // That the stream is closed shows when the next batch is read.
        match timeout_at(until, self.replies.send((reply, charges))).await {
            Ok(_) => Ok(()),
            Err(_) => unread(&""),
        }
    }
}

/// Answers all that is under way. Each call has a deadline, so this ends.
async fn drain(pending: &mut Calls, out: &Out) -> End {
    while let Some(first) = pending.next().await {
        out.send(gather(first, pending)).await?;
    }
    Ok(())
}

/// Carries a call out. Each kind of call has a future of its own size, since as much is moved and cleared for every call.
fn answer(
    services: Arc<Services>,
    from: Origin,
    call: ExchangeCall,
    deadline: Instant,
) -> BoxFuture<'static, Answered> {
    let correlation_id = call.correlation_id;
    let answered = move |answer: Result<(Answer, Option<Charge>), Problem>| {
        let (answer, charge) =
            answer.unwrap_or_else(|problem| (Answer::Error(problem.into_reply()), None));
        let answer = ExchangeAnswer {
            correlation_id,
            answer: Some(answer),
        };
        (answer, charge)
    };
    let Some(call) = call.call else {
        let failure = Failure::Malformed("there is no call that this version knows".into());
        return future::ready(answered(Err(failure.into()))).boxed();
    };
    if let Err(failure) = may_call(path(&call), &from.caller) {
        let problem = Problem::from(failure);
        let origin = (Some(&*from.caller), from.peer);
        audited::turned_away(&services.audit, path(&call), origin, problem.reason());
        return future::ready(answered(Err(problem))).boxed();
    }
    /// The answer to a call has the call's name.
    macro_rules! carried_out {
        ($($name:ident: $request:ident -> $reply:ident,)*) => {
            match call {
                $(Call::$name(call) => async move {
                    let answer = services.answer(call, from, Ok(deadline)).await;
                    answered(answer.map(|(reply, charge)| (Answer::$name(reply), charge)))
                }
                .boxed(),)*
            }
        };
    }
    helve_proto::each_call!(carried_out)
}

/// Where the same call is made alone: the rules name it so.
pub(super) fn path(call: &Call) -> &'static str {
    call.facts().path
}

#[cfg(test)]
mod tests;
