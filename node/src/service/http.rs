//! HTTP for probes and scrapes: `/livez`, `/readyz`, `/metrics`.

use std::{future::Future, io, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;

use super::{Services, waiting::Waiting};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
    listener: TcpListener,
    services: Arc<Services>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router(services))
        .with_graceful_shutdown(stop)
        .await
}

/// Serves the HTTP port of a node that takes no part in a cluster, until `stop` ends.
///
/// # Errors
/// If the listener fails.
pub async fn serve_waiting(
    listener: TcpListener,
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
    axum::serve(listener, router)
        .with_graceful_shutdown(stop)
        .await
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
    match services.metrics.encode(&services.status(), usage) {
        Ok(page) => ([(CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Err(error) => broken(error.to_string()),
    }
}
