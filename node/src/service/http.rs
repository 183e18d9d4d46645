//! HTTP for probes and scrapes: `/livez`, `/readyz`, `/metrics`; and for operators, the console.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{ConnectInfo, State},
    http::{
        StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use helve_http::{Address, Bound, Bounds, Drain, Open, Plain, Port, Progress, Shutdown, Traffic};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, Semaphore},
    time::{Instant, sleep_until},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    NodeNames, Services,
    console::{self, Places},
    waiting::Waiting,
};
use crate::{
    bounds::{self, Load, Shared},
    keyed_places::KeyedPlaces,
    limits::{
        ADDRESS_SCRAPES_MAX, HTTP_ANSWER_BYTES_MAX, HTTP_ANSWER_PROGRESS_BYTES,
        HTTP_BODY_BYTES_MAX, HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_HEADER_TIME_MAX,
        HTTP_REQUEST_BYTES_MAX, METRICS_PAUSE_FACTOR, SCRAPES_MAX,
    },
    tls::PortTls,
};

/// How long pages under way may take once the node stops.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// The bounds of the port that each shared bound of the metrics counts refusals of.
const CONNECTION_BOUNDS: [Bound; 4] = [
    Bound::Connections,
    Bound::AddressConnections,
    Bound::HeadBytes,
    Bound::HeadTime,
];
const BODY_BOUNDS: [Bound; 4] = [
    Bound::RequestBytes,
    Bound::AddressRequestBytes,
    Bound::BodyBytes,
    Bound::BodyTime,
];
const PAGE_BOUNDS: [Bound; 2] = [Bound::AnswerBytes, Bound::AnswerProgress];

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The port, and its TLS if it has some. It asks for no client certificate: probes have none.
pub struct HttpPort {
    /// Where callers come in.
    pub listener: TcpListener,
    /// Without it, in plain text.
    pub tls: Option<Arc<PortTls>>,
}

/// The pages of the HTTP port, whose bounds are this full, and the console's.
fn router(services: Arc<Services>, traffic: Traffic, console: Places) -> Router {
    Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Pages {
            services,
            metrics: Mutex::default(),
            scrapes: Arc::new(Semaphore::new(SCRAPES_MAX)),
            scrapers: KeyedPlaces::new(ADDRESS_SCRAPES_MAX),
            refused: AtomicU64::new(0),
            traffic,
            console,
        }))
}

/// What the pages are made from.
struct Pages {
    services: Arc<Services>,
    metrics: Mutex<Option<MetricsPage>>,
    /// Callers that wait for one, in all and by address.
    scrapes: Arc<Semaphore>,
    scrapers: KeyedPlaces<Address>,
    /// Scrapes that were refused.
    refused: AtomicU64,
    traffic: Traffic,
    /// Calls of the console.
    console: Places,
}

impl Pages {
    /// What callers take up now.
    fn load(&self) -> Load {
        let mut load = self.services.load();
        let scrapes = Shared {
            used: SCRAPES_MAX - self.scrapes.available_permits(),
            limit: SCRAPES_MAX,
            refused: self.refused.load(Ordering::Relaxed),
        };
        load.others.extend([
            ("http-connections", self.connections()),
            ("http-body-bytes", self.bodies()),
            ("http-page-bytes", self.unread()),
            ("scrapes", scrapes),
            (bounds::CONSOLE_CALLS, self.console.fullness()),
        ]);
        load
    }

    fn connections(&self) -> Shared {
        self.shared(
            Traffic::connections,
            HTTP_CONNECTIONS_MAX,
            &CONNECTION_BOUNDS,
        )
    }

    fn bodies(&self) -> Shared {
        self.shared(Traffic::request_bytes, HTTP_REQUEST_BYTES_MAX, &BODY_BOUNDS)
    }

    fn unread(&self) -> Shared {
        self.shared(Traffic::answer_bytes, HTTP_ANSWER_BYTES_MAX, &PAGE_BOUNDS)
    }

    fn shared(&self, used: fn(&Traffic) -> u64, limit: usize, bounds: &[Bound]) -> Shared {
        Shared {
            used: usize::try_from(used(&self.traffic)).unwrap_or(usize::MAX),
            limit,
            refused: bounds
                .iter()
                .map(|&bound| self.traffic.refused(bound))
                .sum(),
        }
    }
}

/// The newest page of metrics.
struct MetricsPage {
    text: Bytes,
    /// When the node began to write it.
    begun: Instant,
    /// When the node may begin to write the next one.
    next: Instant,
}

/// Serves the HTTP port until `stop` ends, and the console on it if there are names by which it may be called.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    port: HttpPort,
    services: Arc<Services>,
    console: Option<NodeNames>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let traffic = Traffic::default();
    let places = Places::default();
    let console = console.map(|names| console::router(&services, names, places.clone()));
    let pages = router(services, traffic.clone(), places).merge(console.unwrap_or_default());
    serve_pages(port, pages, traffic, stop).await
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
    serve_pages(port, router, Traffic::default(), stop).await
}

/// Serves until `stop` ends, and then what is under way.
async fn serve_pages(
    HttpPort { listener, tls }: HttpPort,
    pages: Router,
    traffic: Traffic,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let bounds = Bounds {
        head_bytes: HTTP_HEAD_BYTES_MAX,
        head_time: HTTP_HEADER_TIME_MAX,
        // Pages are read by everybody, so a connection without a request is not worth keeping for long.
        idle_time: HTTP_HEADER_TIME_MAX,
        body_bytes: HTTP_BODY_BYTES_MAX,
        request_bytes: HTTP_REQUEST_BYTES_MAX,
        address_request_bytes: HTTP_REQUEST_BYTES_MAX / 2,
        answer_bytes: HTTP_ANSWER_BYTES_MAX,
        address_answer_bytes: HTTP_ANSWER_BYTES_MAX / 2,
        answer_progress: Progress {
            bytes: HTTP_ANSWER_PROGRESS_BYTES,
            within: HTTP_HEADER_TIME_MAX,
        },
        ..Bounds::default()
    };
    let port = Port {
        bounds: bounds.connections(HTTP_CONNECTIONS_MAX),
        drain: Drain {
            linger: Duration::ZERO,
            timeout: DRAIN_TIME_MAX,
            ..Drain::default()
        },
        traffic,
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

async fn readyz(State(pages): State<Arc<Pages>>) -> Response {
    match pages.services.readiness() {
        Ok(()) => "ready\n".into_response(),
        Err(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {why}\n"),
        )
            .into_response(),
    }
}

/// Callers that wait together share one page, in time and in memory. None gets a page that was begun before it asked.
///
/// Pages are written one at a time, with pauses of [`METRICS_PAUSE_FACTOR`] times as long as the last one took: without, a caller that asks
/// over and over would take the processor from other calls. Few may wait, so that they leave the port's places to probes.
async fn metrics(
    State(pages): State<Arc<Pages>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
) -> Response {
    let asked = Instant::now();
    let scrape = Arc::clone(&pages.scrapes).try_acquire_owned().ok();
    let Some(_scrape) = scrape.zip(pages.scrapers.take(from.ip().into())) else {
        pages.refused.fetch_add(1, Ordering::Relaxed);
        let why = "other scrapes are under way, and this one was not begun: scrape again later\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], why).into_response();
    };
    let mut newest = pages.metrics.lock().await;
    if let Some(newest) = newest.as_ref() {
        if newest.begun >= asked {
            return metrics_page(newest.text.clone());
        }
        sleep_until(newest.next).await;
    }
    let begun = Instant::now();
    let broken = |why: String| (StatusCode::INTERNAL_SERVER_ERROR, why).into_response();
    let services = &pages.services;
    let usage = match services.usage().await {
        Ok(usage) => usage,
        Err(error) => return broken(error.to_string()),
    };
    match services
        .metrics
        .encode(&services.status(), &usage, &pages.load())
    {
        Ok(text) => {
            let text = Bytes::from(text);
            *newest = Some(MetricsPage {
                text: text.clone(),
                begun,
                next: Instant::now() + METRICS_PAUSE_FACTOR * begun.elapsed(),
            });
            metrics_page(text)
        }
        Err(error) => broken(error.to_string()),
    }
}

fn metrics_page(page: Bytes) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], page).into_response()
}
