//! HTTP for probes and scrapes: `/livez`, `/readyz`, `/metrics`.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{either::Either, sync::CancellationToken};

use super::{Services, waiting::Waiting};
use crate::{
    limits::{HTTP_CONNECTIONS_MAX, HTTP_HEADER_TIME_MAX},
    tls::PortTls,
};

/// Between two tries to accept a connection when the operating system gives none.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the port bears.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of more connections than these none is accepted.
    connections: usize,
    /// How long a caller may take to say what it wants.
    header_time: Duration,
}

const BOUNDS: Bounds = Bounds {
    connections: HTTP_CONNECTIONS_MAX,
    header_time: HTTP_HEADER_TIME_MAX,
};

/// The port, and its TLS if it has some. Nobody is asked for a certificate: probes have none.
pub struct HttpPort {
    /// Where callers come in.
    pub listener: TcpListener,
    /// Without it, in plain text.
    pub tls: Option<Arc<PortTls>>,
}

/// The pages of the HTTP port.
pub fn router(services: Arc<Services>) -> Router {
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(services)
}

/// Serves the HTTP port until `stop` ends.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    port: HttpPort,
    services: Arc<Services>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    serve_pages(port, router(services), BOUNDS, stop).await
}

/// Serves the HTTP port of a node that takes no part in a cluster, until `stop` ends.
///
/// # Errors
/// If the listener fails.
pub async fn serve_waiting(
    port: HttpPort,
    waiting: Waiting,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let not_ready = move || {
        let page = format!("not ready: {}\n", waiting.why());
        async move { (StatusCode::SERVICE_UNAVAILABLE, page) }
    };
    let router = Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(not_ready.clone()))
        .route("/metrics", get(not_ready));
    serve_pages(port, router, BOUNDS, stop).await
}

/// Serves until `stop` ends, and then what is under way.
async fn serve_pages(
    HttpPort { listener, tls }: HttpPort,
    pages: Router,
    bounds: Bounds,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(), if connections.len() < bounds.connections => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let pages = TowerToHyperService::new(pages.clone());
                let opened = opened(stream, tls.clone(), bounds.header_time);
                let served = connection(opened, pages, bounds.header_time, stopping.clone());
                connections.spawn(served);
            }
            // Out of open files, or a caller that has gone already: neither is the port's end.
            Err(error) => {
                tracing::warn!(%error, "the HTTP port could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    stopping.cancel();
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// The connection, as soon as its handshake is done. A handshake takes its time before the head of a request does.
async fn opened(
    stream: TcpStream,
    tls: Option<Arc<PortTls>>,
    patience: Duration,
) -> io::Result<Either<TcpStream, TlsStream<TcpStream>>> {
    match tls {
        None => Ok(Either::Left(stream)),
        Some(tls) => {
            let accepting = TlsAcceptor::from(tls.http()).accept(stream);
            Ok(Either::Right(timeout(patience, accepting).await??))
        }
    }
}

async fn connection(
    opened: impl Future<Output = io::Result<Either<TcpStream, TlsStream<TcpStream>>>>,
    pages: TowerToHyperService<Router>,
    header_time: Duration,
    stopping: CancellationToken,
) {
    let stream = tokio::select! {
        opened = opened => match opened {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection to the HTTP port did not come about");
                return;
            }
        },
        () = stopping.cancelled() => return,
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .serve_connection(TokioIo::new(stream), pages);
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopping.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the HTTP port broke");
    }
}

async fn readyz(State(services): State<Arc<Services>>) -> Response {
    match services.readiness() {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {why}\n"),
        )
            .into_response(),
    }
}

async fn metrics(State(services): State<Arc<Services>>) -> Response {
    let broken = |why: String| (StatusCode::INTERNAL_SERVER_ERROR, why).into_response();
    let usage = match services.usage().await {
        Ok(usage) => usage,
        Err(error) => return broken(error.to_string()),
    };
    match services.metrics.encode(&services.status(), &usage) {
        Ok(page) => ([(CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Err(error) => broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        task::JoinHandle,
    };

    use super::*;

    const LAST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

    /// A port with one page, and what stops it.
    struct Served {
        address: SocketAddr,
        stop: CancellationToken,
        serving: JoinHandle<io::Result<()>>,
    }

    impl Served {
        async fn within(bounds: Bounds) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let pages = Router::new().route("/livez", get(async || "alive\n"));
            let stop = CancellationToken::new();
            let stopped = stop.clone().cancelled_owned();
            let port = HttpPort {
                listener,
                tls: None,
            };
            let serving = tokio::spawn(serve_pages(port, pages, bounds, stopped));
            Self {
                address,
                stop,
                serving,
            }
        }

        async fn asked(&self, request: &[u8]) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request).await.unwrap();
            stream
        }

        async fn end(self) {
            self.stop.cancel();
            self.serving.await.unwrap().unwrap();
        }
    }

    async fn is_answered(mut asking: TcpStream) {
        let mut answer = String::new();
        asking.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    #[tokio::test]
    async fn who_takes_too_long_to_ask_is_cut_off_and_others_are_served() {
        let port = Served::within(Bounds {
            header_time: Duration::from_millis(500),
            ..BOUNDS
        });
        let port = port.await;
        let slow = port.asked(b"GET /livez HTTP/1.1\r\nHost: ").await;
        let silent = port.asked(b"").await;
        is_answered(port.asked(LAST).await).await;
        // Both end although their callers neither ask nor go.
        for mut stream in [slow, silent] {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            assert!(!rest.starts_with(b"HTTP/1.1 200"));
        }
        port.end().await;
    }

    #[tokio::test]
    async fn a_connection_over_the_bound_waits_until_another_ends() {
        let port = Served::within(Bounds {
            connections: 1,
            ..BOUNDS
        });
        let port = port.await;
        let mut first = port.asked(b"").await;
        let second = port.asked(LAST).await;
        // Long enough for two to be served.
        for _ in 0..8 {
            let request = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
            first.write_all(request).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"alive\n") {
                assert_ne!(first.read_buf(&mut answer).await.unwrap(), 0);
            }
        }
        let waiting = second.try_read(&mut [0]).unwrap_err();
        assert_eq!(waiting.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        is_answered(second).await;
        port.end().await;
    }
}
