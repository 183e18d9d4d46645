//! HTTP for probes and scrapes: `/livez`, `/readyz`, `/metrics`.

use std::{future::Future, io, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use helve_http::{Bounds, Drain, Open, Plain, Port, Shutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{Services, waiting::Waiting};
use crate::{
    limits::{HTTP_BODY_BYTES_MAX, HTTP_CONNECTIONS_MAX, HTTP_HEADER_TIME_MAX},
    tls::PortTls,
};

/// How long pages under way may take once the node stops.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
    serve_pages(port, router(services), stop).await
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
    serve_pages(port, router, stop).await
}

/// Serves until `stop` ends, and then what is under way.
async fn serve_pages(
    HttpPort { listener, tls }: HttpPort,
    pages: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let bounds = Bounds {
        head_time: HTTP_HEADER_TIME_MAX,
        // Pages are read by everybody, so a connection without a request is not worth keeping for long.
        idle_time: HTTP_HEADER_TIME_MAX,
        body_bytes: HTTP_BODY_BYTES_MAX,
        ..Bounds::default()
    };
    let port = Port {
        // Not halved for one address: behind a proxy all probes come from one.
        bounds: Bounds {
            connections: HTTP_CONNECTIONS_MAX,
            address_connections: HTTP_CONNECTIONS_MAX,
            ..bounds
        },
        drain: Drain {
            linger: Duration::ZERO,
            timeout: DRAIN_TIME_MAX,
            ..Drain::default()
        },
        ..Port::new("HTTP port")
    };
    let shutdown = Shutdown::new();
    let begin = async {
        stop.await;
        shutdown.begin();
        std::future::pending::<()>().await;
    };
    let serving = async {
        match tls {
            None => helve_http::serve(listener, Plain, pages, port, shutdown.clone()).await,
            Some(tls) => {
                helve_http::serve(listener, OverTls(tls), pages, port, shutdown.clone()).await
            }
        }
    };
    tokio::select! {
        served = serving => served,
        () = begin => Ok(()),
    }
}

/// Opens connections over the port's TLS, as its files are now.
#[derive(Clone)]
struct OverTls(Arc<PortTls>);

impl Open for OverTls {
    type Stream = TlsStream<TcpStream>;

    async fn open(&self, stream: TcpStream) -> io::Result<Self::Stream> {
        TlsAcceptor::from(self.0.http()).accept(stream).await
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
