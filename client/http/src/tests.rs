//! Tests of slow callers, crowds, unread answers and stops, each at lowered bounds.

mod crowds;
mod slow;
mod stops;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    http::HeaderValue,
    middleware::map_response,
    response::Response,
    routing::{get, post},
};
use futures::{StreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};

use crate::{Bounds, Drain, Plain, Port, Shutdown, serve};

/// Far longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a page that no read takes whole.
const LARGE: usize = 64 << 20;

/// A listener with a few pages, and what stops it.
struct Served {
    address: SocketAddr,
    shutdown: Shutdown,
    serving: JoinHandle<io::Result<()>>,
    /// Lets `/wait` answer.
    release: Arc<Notify>,
    /// A call of `/wait` has begun.
    begun: Arc<Notify>,
}

fn pages(release: &Arc<Notify>, begun: &Arc<Notify>, shutdown: &Shutdown) -> Router {
    let (release, begun) = (Arc::clone(release), Arc::clone(begun));
    let ended = shutdown.ended();
    let wait = move || async move {
        begun.notify_one();
        // What rmcp does with the token that it is given.
        tokio::select! {
            () = release.notified() => "done",
            () = ended.cancelled() => "broken off",
        }
    };
    let ended = shutdown.ended();
    let listen = move || async move {
        let first = stream::once(async { Ok::<_, io::Error>(Bytes::from_static(b"event\n")) });
        let end = stream::once(async move {
            ended.cancelled().await;
            Ok(Bytes::from_static(b"end\n"))
        });
        Body::from_stream(first.chain(end))
    };
    let named = |mut response: Response| async move {
        let headers = response.headers_mut();
        headers.insert("x-page", HeaderValue::from_static("named"));
        response
    };
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/wait", get(wait))
        .route("/listen", get(listen))
        .route("/large", get(async || Bytes::from(vec![7; LARGE])))
        .route("/size", post(async |body: Bytes| body.len().to_string()))
        .layer(map_response(named))
}

impl Served {
    async fn within(bounds: Bounds) -> Self {
        Self::stopping(bounds, Drain::default()).await
    }

    async fn stopping(bounds: Bounds, drain: Drain) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (release, begun) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let shutdown = Shutdown::new();
        let port = Port {
            bounds,
            drain,
            is_endless: |request| request.uri.path() == "/listen",
            ..Port::new("a port")
        };
        let router = pages(&release, &begun, &shutdown);
        let serving = tokio::spawn(serve(listener, Plain, router, port, shutdown.clone()));
        Self {
            address,
            shutdown,
            serving,
            release,
            begun,
        }
    }

    /// A connection over which this has been sent.
    async fn sent(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// The answer to a request on a connection of its own.
    async fn asked(&self, page: &str) -> String {
        answer(self.sent(&last(page)).await).await
    }

    async fn stopped(self) {
        self.shutdown.begin();
        timeout(PATIENCE, self.serving)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

/// A request after which the connection ends.
fn last(page: &str) -> String {
    format!("GET {page} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

/// A request after which the connection goes on.
fn next(page: &str) -> String {
    format!("GET {page} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// The head of a request with a body of this length, and the first bytes of it.
fn body(declared: usize, sent: usize) -> String {
    let sent = "x".repeat(sent);
    format!("POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: {declared}\r\n\r\n{sent}")
}

/// All that comes until the connection ends. A reset is an end, too.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    drop(ended.expect("the listener closes the connection"));
    rest
}

async fn answer(mut stream: TcpStream) -> String {
    String::from_utf8(rest(&mut stream).await).unwrap()
}

/// Reads until this has come.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        let count = timeout(PATIENCE, stream.read_buf(&mut read)).await;
        assert_ne!(count.unwrap().unwrap(), 0, "the connection ended");
    }
    String::from_utf8(read).unwrap()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}
