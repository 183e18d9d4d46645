//! One request: its body within bounds, its answer counted.

use std::{convert::Infallible, sync::Arc};

use axum::extract::ConnectInfo;
use futures::future::{BoxFuture, FutureExt as _};
use http::{HeaderValue, Request, Response, header::CONNECTION};
use hyper::{body::Incoming, service::Service};

use crate::{
    answer::Answer,
    body::{Arriving, Room},
    connection_state::ConnectionState,
    refusal::Refused,
    site::Site,
};

/// Serves the requests of one connection.
pub(crate) struct Requests {
    site: Arc<Site>,
    line: Arc<ConnectionState>,
}

impl Requests {
    pub(crate) fn new(site: Arc<Site>, line: Arc<ConnectionState>) -> Self {
        Self { site, line }
    }
}

impl Service<Request<Incoming>> for Requests {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Answer>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (site, line) = (Arc::clone(&self.site), Arc::clone(&self.line));
        line.begin();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(ConnectInfo(line.from));
        let is_endless = (site.port.is_endless)(&parts);
        let endless =
            is_endless.then(|| (site.outstanding.endless(), site.port.traffic.streaming()));
        let arriving = Arriving::new(&parts.headers, body, Arc::clone(&site), Arc::clone(&line));
        let intake = arriving.intake();
        parts.extensions.insert(Room::new(&intake));
        let answering = site.pages.call(Request::from_parts(parts, arriving));
        async move {
            let mut response = answering.await?;
            if let Some(refusal) = intake.refusal() {
                site.refuses(line.from, refusal, Refused::Body);
                let (parts, _) = response.into_parts();
                response = refusal.response(site.port.style, parts.headers);
            }
            if site.shutdown.is_begun() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok(response.map(|body| Answer::new(body, site, line, endless)))
        }
        .boxed()
    }
}
