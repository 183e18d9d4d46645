//! Serving the client port: HTTP/2 or HTTP/1.1, as a connection begins, with the limits set. Each connection is a task of its own, and of
//! HTTP/2 each stream.

use std::{convert::Infallible, future::Future, io, pin::pin, sync::Arc};

use axum::http::{Request, Response};
use futures::{Stream, StreamExt as _, TryFutureExt as _};
use hyper::{body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{body::Body, codegen::Service, transport::server::Connected};

use super::{
    account::Account,
    leaving::{Leaving, UnreadAnswers},
    pace::{Pace, Paced},
};
use crate::{connections::Connection, limits};

/// Serves those who are let in until `stop` ends, then waits for calls under way.
pub(super) async fn serve<S>(
    callers: impl Stream<Item = io::Result<Connection>>,
    services: S,
    unread: UnreadAnswers,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let http = http(unread.clone());
    let stopping = CancellationToken::new();
    let connections = TaskTracker::new();
    {
        let mut callers = pin!(callers);
        let mut stop = pin!(stop);
        loop {
            let caller = tokio::select! {
                () = &mut stop => break,
                caller = callers.next() => caller,
            };
            match caller {
                Some(Ok(connection)) => {
                    let served =
                        serve_one(http.clone(), connection, services.clone(), stopping.clone());
                    // HTTP/1.1 has no task for an answer but that of its connection.
                    connections.spawn(unread.clone().send(served));
                }
                Some(Err(error)) => tracing::debug!(%error, "a connection was not accepted"),
                None => break,
            }
        }
    }
    stopping.cancel();
    connections.close();
    connections.wait().await;
}

async fn serve_one<S>(
    http: Builder<Streams>,
    connection: Connection,
    services: S,
    stopping: CancellationToken,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let info = connection.connect_info();
    let pace = Pace::default();
    let connection = Paced::new(connection, pace.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(info.clone());
        request.extensions_mut().insert(pace.clone());
        let answer = services.clone().call(request.map(Body::new));
        answer.map_ok(|mut response| {
            let account = response.extensions_mut().remove::<Arc<Account>>();
            response.map(|body| Leaving::of(body, account))
        })
    });
    let mut served = pin!(http.serve_connection(TokioIo::new(connection), service));
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = stopping.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

fn http(unread: UnreadAnswers) -> Builder<Streams> {
    let mut http = Builder::new(Streams(unread));
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HTTP1_HEAD_TIME_MAX)
        .max_buf_size(limits::HTTP1_BUFFER_BYTES_MAX);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::CONNECTION_STREAMS_MAX)
        .max_pending_accept_reset_streams(limits::CONNECTION_RESETS_PENDING_MAX)
        .max_local_error_reset_streams(limits::CONNECTION_RESETS_FORCED_MAX)
        .max_header_list_size(limits::HEADER_LIST_READ_BYTES_MAX)
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(limits::STREAM_SEND_BYTES_MAX)
        .keep_alive_interval(limits::CONNECTION_KEEPALIVE)
        .keep_alive_timeout(limits::CONNECTION_KEEPALIVE);
    http
}

/// Runs the tasks of streams, each with an eye on its answer.
#[derive(Debug, Clone)]
struct Streams(UnreadAnswers);

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(self.0.clone().send(stream));
    }
}

#[cfg(test)]
mod tests;
