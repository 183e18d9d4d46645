//! A round-robin HTTP balancer: it is in front of the replicas in the demo, in
//! `deploy/compose.yaml` and in the tests.
//!
//! Each request goes to the next replica on a connection of its own. Only if that replica cannot be reached, so that nothing
//! was sent, does the request go to the one after it. Once a byte was sent a failure is answered
//! with 502, and no answer in time with 504: whether the replica acted is not known, and only the
//! caller can say the call again safely. A stream of events is passed on as it comes, for as long as
//! it goes on.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
};
use helve_http::{Bounds, Drain, Plain, Port, Shutdown, Style, read_whole};
use http::{HeaderMap, HeaderName, Method, StatusCode, header, request::Parts};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::{
    metrics::{Metrics, count},
    serve::{self, is_endless},
};

/// The largest request or answer that is passed on, in bytes.
const BODY_BYTES_MAX: usize = serve::BODY_BYTES_MAX;
/// How long a replica's name may take to be resolved, and the replica to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a replica may take for its answer: for the head of a stream of events, and for the
/// whole of any other answer. Tools make few calls to the cluster, each of which takes no longer
/// than `--timeout`, which is 5 seconds by default.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Seconds in `Retry-After` when no replica can be reached.
const RETRY_SECONDS: &str = "1";

struct Balancer {
    replicas: Vec<String>,
    next: AtomicUsize,
    answer_timeout: Duration,
    shutdown: Shutdown,
}

/// Serves until `shutdown` begins, then finishes the requests under way. Once it has begun,
/// `/readyz` answers 503; until then a replica answers that, as it does all else. Replicas are
/// named as `HOST:PORT`; a name is resolved for each request, since a replica that was replaced may
/// be elsewhere.
///
/// # Errors
/// If the listener fails.
///
/// # Panics
/// If `replicas` is empty.
pub async fn serve(
    listener: TcpListener,
    replicas: Vec<String>,
    shutdown: Shutdown,
) -> io::Result<()> {
    let bounds = Bounds::default().within_open_files();
    serve_within(listener, replicas, bounds, Drain::default(), shutdown).await
}

/// As [`serve()`], within these bounds, and stopping as `drain` says. A body may have
/// [`BODY_BYTES_MAX`](serve::BODY_BYTES_MAX) at most.
///
/// # Errors
/// If the listener fails.
///
/// # Panics
/// If `replicas` is empty.
pub async fn serve_within(
    listener: TcpListener,
    replicas: Vec<String>,
    bounds: Bounds,
    drain: Drain,
    shutdown: Shutdown,
) -> io::Result<()> {
    let metrics = Metrics::new();
    serve_counted(listener, replicas, bounds, drain, shutdown, &metrics).await
}

/// As [`serve_within`], counting requests and what the listener does.
///
/// # Errors
/// If the listener fails.
///
/// # Panics
/// If `replicas` is empty.
pub async fn serve_counted(
    listener: TcpListener,
    replicas: Vec<String>,
    bounds: Bounds,
    drain: Drain,
    shutdown: Shutdown,
    metrics: &Metrics,
) -> io::Result<()> {
    assert!(!replicas.is_empty(), "a balancer needs a replica");
    let balancer = Arc::new(Balancer::new(replicas, shutdown.clone()));
    let router = axum::Router::new()
        .fallback(forward)
        .with_state(balancer)
        .layer(from_fn_with_state(metrics.clone(), count));
    let port = Port {
        bounds: Bounds {
            body_bytes: bounds.body_bytes.min(BODY_BYTES_MAX),
            ..bounds
        },
        drain,
        style: Style::JsonRpc,
        is_endless,
        traffic: metrics.traffic().clone(),
        ..Port::new("balancer")
    };
    helve_http::serve(listener, Plain, router, port, shutdown).await
}

async fn forward(State(balancer): State<Arc<Balancer>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if balancer.shutdown.is_begun() && parts.uri.path() == "/readyz" {
        return answer(
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: it is stopping\n",
        );
    }
    let Ok(body) = read_whole(body, BODY_BYTES_MAX).await else {
        return answer(
            StatusCode::BAD_REQUEST,
            "the request could not be read, or is too large",
        );
    };
    strip_hop_headers(&mut parts.headers);
    let Some(stream) = balancer.connect().await else {
        let why = "no replica can be reached; nothing was sent";
        let retry = [(header::RETRY_AFTER, RETRY_SECONDS)];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, why).into_response();
    };
    // One that was stopped accepts connections, and would hold its callers for ever.
    let exchanged = exchange(stream, parts, body);
    match tokio::time::timeout(balancer.answer_timeout, exchanged).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::info!(error, "a replica failed after it was sent a request");
            answer(
                StatusCode::BAD_GATEWAY,
                "the replica failed; it may have acted",
            )
        }
        Err(_) => {
            tracing::info!("a replica that was sent a request did not answer in time");
            answer(
                StatusCode::GATEWAY_TIMEOUT,
                "the replica did not answer in time; it may have acted",
            )
        }
    }
}

impl Balancer {
    fn new(replicas: Vec<String>, shutdown: Shutdown) -> Self {
        Self {
            replicas,
            next: AtomicUsize::new(0),
            answer_timeout: ANSWER_TIMEOUT,
            shutdown,
        }
    }

    /// A connection to the next replica that accepts one; none, if none does.
    async fn connect(&self) -> Option<TcpStream> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for offset in 0..self.replicas.len() {
            let replica = &self.replicas[first.wrapping_add(offset) % self.replicas.len()];
            match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(replica.as_str())).await
            {
                Ok(Ok(stream)) => return Some(stream),
                Ok(Err(error)) => tracing::debug!(replica, %error, "cannot connect"),
                Err(_) => tracing::debug!(replica, "connecting timed out"),
            }
        }
        None
    }
}

/// Sends one request on a fresh connection, and reads the whole answer before a byte of it is passed on, so that an answer is
/// passed on whole or not at all; but for a stream of events, which may go on for as long as the client listens.
async fn exchange(stream: TcpStream, parts: Parts, body: Bytes) -> Result<Response, String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(text)?;
    // It ends with the answer, or once the client has gone or the time is up, and the answer is not
    // read; its failure is the answer's too.
    tokio::spawn(connection);
    let is_head = parts.method == Method::HEAD;
    let request = http::Request::from_parts(parts, Full::new(body));
    let (mut parts, body) = sender
        .send_request(request)
        .await
        .map_err(text)?
        .into_parts();
    // Of a body that does not come; of others the length is that of what is passed on.
    let length = parts.headers.get(header::CONTENT_LENGTH).cloned();
    strip_hop_headers(&mut parts.headers);
    if let Some(length) = length.filter(|_| is_head) {
        parts.headers.insert(header::CONTENT_LENGTH, length);
    }
    if is_event_stream(&parts.headers) {
        return Ok(Response::from_parts(parts, Body::new(body)));
    }
    let body = read_whole(body, BODY_BYTES_MAX).await.map_err(text)?;
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Removes the headers that speak of one connection, not of the message: these, and those that the
/// header `Connection` names (RFC 9110, section 7.6.1).
fn strip_hop_headers(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter();
    let named = named.filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> = named
        .flat_map(|names| names.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        // A replica checks `Host`, whatever `Connection` says.
        .filter(|name| name.as_str() != "host")
        .collect();
    let of_connection = [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::CONTENT_LENGTH,
        header::UPGRADE,
        header::TE,
        header::TRAILER,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    for name in of_connection.into_iter().chain(named) {
        headers.remove(name);
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn answer(status: StatusCode, why: &'static str) -> Response {
    (status, why).into_response()
}

#[cfg(test)]
mod tests {
    use std::net;

    use axum::body::to_bytes;
    use futures::StreamExt as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::oneshot,
    };

    use super::*;
    use crate::wire::pieces::pieces;

    /// A listener that says whether a connection was made, and its address.
    fn listening() -> (net::TcpListener, String) {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    /// The connection of the one request to this replica, which has arrived.
    async fn asked(replica: net::TcpListener) -> TcpStream {
        let replica = TcpListener::from_std(replica).unwrap();
        let (mut stream, _) = replica.accept().await.unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream
    }

    #[tokio::test]
    async fn replica_that_does_not_answer_in_time_may_have_acted() {
        for begun in ["", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"] {
            let (stopped, address) = listening();
            let (next, other) = listening();
            let balancer = Balancer {
                answer_timeout: Duration::from_millis(50),
                ..Balancer::new(vec![address, other], Shutdown::new())
            };
            let replica = tokio::spawn(async move {
                let mut stream = asked(stopped).await;
                stream.write_all(begun.as_bytes()).await.unwrap();
                stream
            });
            let request = Request::new(Body::from("hi"));
            let response = forward(State(Arc::new(balancer)), request).await;
            assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT, "{begun}");
            let why = to_bytes(response.into_body(), 1024).await.unwrap();
            let why = String::from_utf8_lossy(&why);
            assert!(why.contains("in time; it may have acted"), "{why}");
            let tried = next.accept();
            assert!(tried.is_err(), "it was sent to the next replica: {tried:?}");
            replica.abort();
        }
    }

    #[tokio::test]
    async fn request_in_pieces_is_held_once() {
        let (replica, address) = listening();
        let balancer = Arc::new(Balancer::new(vec![address], Shutdown::new()));
        let replica = tokio::spawn(async move {
            let mut stream = asked(replica).await;
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        });
        let request = Request::new(pieces("hi".repeat(100)));
        let response = forward(State(balancer), request).await;
        assert_eq!(response.status(), StatusCode::OK);
        replica.abort();
    }

    #[tokio::test]
    async fn stream_of_events_goes_on_beyond_the_limit() {
        let (replica, address) = listening();
        let balancer = Arc::new(Balancer::new(vec![address], Shutdown::new()));
        let (go_on, told) = oneshot::channel();
        tokio::spawn(async move {
            let mut stream = asked(replica).await;
            let begun = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n";
            stream.write_all(begun.as_bytes()).await.unwrap();
            told.await.unwrap();
            stream.write_all(b"data: two\n\n").await.unwrap();
        });
        let response = forward(State(balancer), Request::new(Body::empty())).await;
        assert_eq!(response.status(), StatusCode::OK);
        let mut events = response.into_body().into_data_stream();
        assert_eq!(events.next().await.unwrap().unwrap(), "data: one\n\n");
        tokio::time::pause();
        tokio::time::advance(2 * ANSWER_TIMEOUT).await;
        go_on.send(()).unwrap();
        assert_eq!(events.next().await.unwrap().unwrap(), "data: two\n\n");
    }
}
