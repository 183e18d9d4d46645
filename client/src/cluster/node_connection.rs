//! A connection to one node.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use helve_proto::TraceParent;
use tonic::{
    Status,
    body::Body,
    codegen::{
        Service,
        http::{HeaderValue, Request, Response, header::AUTHORIZATION},
    },
    transport::{Channel, Endpoint},
};

use crate::{
    cluster::{bearer::Bearer, details, greeted::Greeting, line_error::LineError},
    trace,
};

/// A connection to one address, whose calls bear the client's token, and the span that [`within_trace`](crate::within_trace) names.
/// Generated clients of `helve.v1` work over it. An answer that is no gRPC, as of a proxy that refuses a call, and a connection that
/// cannot be made are [`tonic::Status`]es that name the address, the cause and what to do.
#[derive(Clone)]
pub struct NodeConnection {
    address: Arc<str>,
    channel: Channel,
    bearer: Bearer,
}

impl NodeConnection {
    /// A connection to `address`, which errors name: `HOST:PORT`.
    #[must_use]
    pub fn new(address: impl Into<Arc<str>>, channel: Channel, bearer: &Bearer) -> Self {
        Self {
            address: address.into(),
            channel,
            bearer: bearer.clone(),
        }
    }

    /// The same in plain text, connected when it is first used. It bears no call until a server of HTTP/2 has spoken at its other end, so
    /// that a call to anything else was certainly not sent. Needs a tokio runtime around it.
    ///
    /// The bearer's token goes wherever this says, for all between to read: ask [`Address::is_loopback`](crate::Address::is_loopback).
    #[must_use]
    pub fn plain(
        address: impl Into<Arc<str>>,
        endpoint: &Endpoint,
        connect_timeout: Duration,
        bearer: &Bearer,
    ) -> Self {
        let greeting = Greeting::new(connect_timeout);
        let channel = endpoint.connect_with_connector_lazy(greeting);
        Self::new(address, channel, bearer)
    }

    /// The address, as errors name it.
    #[must_use]
    pub fn address(&self) -> &Arc<str> {
        &self.address
    }
}

impl Service<Request<Body>> for NodeConnection {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Body>, Status>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let ready = self.channel.poll_ready(context);
        ready.map_err(|error| LineError::of_transport(&self.address, error).into())
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(token) = self.bearer.header() {
            request.headers_mut().insert(AUTHORIZATION, token);
        }
        let parent = trace::parent().map(|parent| HeaderValue::try_from(parent.to_string()));
        // Digits and hyphens are always a value.
        if let Some(Ok(parent)) = parent {
            request.headers_mut().insert(TraceParent::NAME, parent);
        }
        let answering = self.channel.call(request);
        let address = Arc::clone(&self.address);
        Box::pin(async move {
            let response = answering
                .await
                .map_err(|error| LineError::of_transport(&address, error))?;
            let response = details::readable(response);
            match LineError::of_response(&address, &response) {
                Some(error) => Err(error.into()),
                None => Ok(response),
            }
        })
    }
}

impl fmt::Debug for NodeConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeConnection({})", self.address)
    }
}
