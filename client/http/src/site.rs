//! What all connections of one listener share.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use axum::Router;
use http::request::Parts;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    bounds::{Bounds, Drain},
    log_throttle::LogThrottle,
    outstanding::Outstanding,
    pool::Pool,
    refusal::{Refusal, Refused, Style},
    shutdown::Shutdown,
    traffic::{Bound, Traffic},
};

/// Connections that are still read after their last bytes, although others have their places.
pub(crate) const LEAVING_MAX: usize = 64;

/// What a listener is for, what it bears, and how it stops.
#[derive(Debug, Clone)]
pub struct Port {
    /// Its name in the log.
    pub name: &'static str,
    /// What it bears.
    pub bounds: Bounds,
    /// How it stops.
    pub drain: Drain,
    /// How it refuses.
    pub style: Style,
    /// Whether the answer to this request streams without an end of its own, so that a server that stops does
    /// not wait for it.
    pub is_endless: fn(&Parts) -> bool,
    /// What it counts, for its operator.
    pub traffic: Traffic,
}

impl Port {
    /// A port of this name, with the default bounds, no endless answers, and refusals as text.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            bounds: Bounds::default(),
            drain: Drain::default(),
            style: Style::default(),
            is_endless: |_| false,
            traffic: Traffic::default(),
        }
    }
}

pub(crate) struct Site {
    pub(crate) port: Port,
    pub(crate) pages: TowerToHyperService<Router>,
    pub(crate) shutdown: Shutdown,
    /// Cancelled when the listener is closed.
    pub(crate) closed: CancellationToken,
    pub(crate) connections: Arc<Pool>,
    pub(crate) requests: Arc<Pool>,
    pub(crate) answers: Arc<Pool>,
    pub(crate) outstanding: Outstanding,
    /// Room for connections that have lost their places.
    pub(crate) leaving: Semaphore,
    refused: LogThrottle,
    slow: LogThrottle,
}

impl Site {
    pub(crate) fn new(port: Port, router: Router, shutdown: Shutdown) -> Arc<Self> {
        let bounds = &port.bounds;
        let connections = Pool::new(bounds.connections, bounds.address_connections);
        let requests = Pool::new(bounds.request_bytes, bounds.address_request_bytes);
        let answers = Pool::new(bounds.answer_bytes, bounds.address_answer_bytes);
        port.traffic
            .watch(&connections, &requests, &answers, &shutdown);
        Arc::new(Self {
            connections,
            requests,
            answers,
            port,
            pages: TowerToHyperService::new(router),
            shutdown,
            closed: CancellationToken::new(),
            outstanding: Outstanding::default(),
            leaving: Semaphore::new(LEAVING_MAX),
            refused: LogThrottle::default(),
            slow: LogThrottle::default(),
        })
    }

    /// Counts a refusal, and logs it, one line for many.
    pub(crate) fn refuses(&self, from: SocketAddr, refusal: Refusal, what: Refused) {
        self.port.traffic.refused_for(refusal.bound(what));
        self.warn_refused(
            &self.refused,
            from,
            "requests were refused",
            &refusal.message(),
        );
    }

    /// Counts that a connection was closed on its caller, and logs it, one line for many.
    pub(crate) fn gives_up(&self, from: SocketAddr, bound: Bound, why: &str) {
        self.port.traffic.refused_for(bound);
        self.warn_refused(&self.slow, from, "connections were closed", why);
    }

    fn warn_refused(&self, log_throttle: &LogThrottle, from: SocketAddr, what: &str, why: &str) {
        let port = self.port.name;
        match log_throttle.count(Instant::now()) {
            Some(count) => {
                tracing::warn!(port, count, %from, why, "{what}, the last one from this address");
            }
            None => tracing::debug!(port, %from, why, "{what}"),
        }
    }
}
