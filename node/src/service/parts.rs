//! The parts of an answer that streams: each with the room that it takes, and at the end the failure of the task that made them.

use std::{future, sync::Arc};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use prost::Message;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Response, Status};

use super::{account::Account, budget::Charge, failure::Failure, status::Problem};
use crate::{
    audit::{Ended, Entry},
    bounds::What,
    limits::BACKUP_STALL_MAX,
    metrics::CallTimer,
    traces::Span,
};

/// The answer of a call that streams.
pub(crate) type Parts<P> = BoxStream<'static, Result<P, Status>>;

/// A part, and what it takes until it has left.
pub(crate) type Charged<P> = (P, Charge);

/// Runs `pump`, whose parts come over `parts`, until its caller has gone. `rpc` names it where it breaks.
pub(crate) fn pumped<P: Send + 'static>(
    rpc: &'static str,
    account: Arc<Account>,
    pump: impl Future<Output = Option<Problem>> + Send + 'static,
    parts: mpsc::Receiver<Charged<P>>,
) -> Response<Parts<P>> {
    let end = stream::once(AbortOnDropHandle::new(tokio::spawn(pump)));
    let end = end.filter_map(move |joined| {
        future::ready(match joined {
            Ok(problem) => problem.map(|problem| Err(problem.into_status())),
            Err(error) => Some(Err(
                Failure::Stopping(format!("{rpc} broke: {error}")).into()
            )),
        })
    });
    let parts = ReceiverStream::new(parts).map(move |(part, charge)| {
        account.keep_answer(charge);
        Ok(part)
    });
    Response::new(parts.chain(end).boxed())
}

/// Hands on a part once there is room for it. Fails with `None` if the caller has gone, and with the advice if it does not read.
pub(crate) async fn hand_on<P: Message>(
    account: &Arc<Account>,
    out: &mpsc::Sender<Charged<P>>,
    part: P,
    advice: &str,
) -> Result<(), Option<Failure>> {
    let bytes = account.answer_room(part.encoded_len());
    let until = Instant::now() + BACKUP_STALL_MAX;
    let room = Arc::clone(account).wait(What::AnswerBytes, bytes, until);
    let room = room.await.map_err(Failure::from)?;
    match timeout_at(until, out.send((part, room))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(None),
        Err(_) => Err(Some(Failure::NotNow(format!(
            "the caller read nothing for {} s: {advice}",
            BACKUP_STALL_MAX.as_secs()
        )))),
    }
}

/// Records a call that was refused before its first part.
pub(crate) fn refused(failure: Failure, entry: Entry) -> Status {
    let problem = Problem::from(failure);
    entry.ended(|| Ended::with(problem.reason().as_str()));
    problem.into_status()
}

/// Counts and records the end of a call whose parts have been made, and ends its span.
pub(crate) fn ended(
    mut timer: CallTimer<'_>,
    entry: Entry,
    span: Option<Span>,
    failure: Option<Failure>,
) -> Option<Problem> {
    let problem = failure.map(Problem::from);
    let outcome = problem
        .as_ref()
        .map_or("OK", |problem| problem.reason().as_str());
    timer.answered(outcome);
    entry.ended(|| Ended::with(outcome));
    if let (Some(mut span), Some(problem)) = (span, &problem) {
        span.fails(problem.reason().as_str());
    }
    problem
}
