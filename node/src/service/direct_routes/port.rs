//! What all requests of the client port go through, whatever serves them.

use std::{
    convert::Infallible,
    future::{Future, ready},
    io,
    task::{Context, Poll},
};

use axum::http::{HeaderMap, HeaderValue, Request, Response};
use futures::{
    FutureExt as _, Stream, TryFutureExt as _,
    future::{BoxFuture, Either, MapOk},
};
use tonic::{body::Body, codegen::Service};

use crate::{
    connections::Connection,
    limits,
    service::{
        arriving::Arriving,
        json::{self, NodeNames},
        leaving::UnreadAnswers,
        serving, undelivered,
    },
};

/// What all requests of the port have in common, whatever serves them: their messages come in within bounds, the transport's refusal of
/// a message is explained, and calls in JSON are answered in JSON.
#[derive(Clone)]
struct Watched<S> {
    inner: S,
    names: NodeNames,
}

impl<S> Service<Request<Body>> for Watched<S>
where
    S: Service<Request<Arriving>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<
        MapOk<S::Future, fn(Response<Body>) -> Response<Body>>,
        BoxFuture<'static, Result<Response<Body>, S::Error>>,
    >;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        shorten_encoding(request.headers_mut());
        let mut request = request.map(Arriving::new);
        let call = match json::adopt(&mut request, &self.names) {
            Ok(call) => call,
            Err(refusal) => return Either::Right(ready(Ok(refusal)).boxed()),
        };
        let answer = self.inner.call(request);
        let answer = answer.map_ok(undelivered::explain as fn(Response<Body>) -> Response<Body>);
        match call {
            None => Either::Left(answer),
            Some(call) => Either::Right(
                answer
                    .and_then(async move |answer| Ok(call.answer(answer).await))
                    .boxed(),
            ),
        }
    }
}

/// Replaces a name of an encoding that is longer than any: the service repeats the name in its refusal
/// of a compressed message.
fn shorten_encoding(headers: &mut HeaderMap) {
    const ENCODING: &str = "grpc-encoding";
    let value = headers.get(ENCODING);
    if value.is_some_and(|value| value.len() > limits::ENCODING_NAME_BYTES_MAX) {
        let too_long = HeaderValue::from_static("a-name-that-is-too-long");
        headers.insert(ENCODING, too_long);
    }
}

/// Serves those who are let in at the client port until `stop` ends, then waits for calls under way. Call [`Services::drain`] first, or
/// streams hold it up. Answers that callers leave unread are bounded, and counted in `unread`. Callers in JSON call the node by `names`.
///
/// # Errors
/// None: what breaks is a connection's end, not the port's.
pub async fn serve<S>(
    callers: impl Stream<Item = io::Result<Connection>>,
    (services, names): (S, NodeNames),
    unread: UnreadAnswers,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: Service<Request<Arriving>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    let watched = Watched {
        inner: services,
        names,
    };
    serving::serve(callers, watched, unread, stop).await;
    Ok(())
}
