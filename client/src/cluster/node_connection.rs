//! A connection to one node.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use tonic::{
    Status,
    body::Body,
    codegen::{
        Service,
        http::{Request, Response, header::AUTHORIZATION},
    },
    transport::Channel,
};

use crate::cluster::{bearer::Bearer, line_error::LineError};

/// A connection to one address, whose calls bear the client's token. Generated clients of `helve.v1` work over it. An answer that is
/// no gRPC, as of a proxy that refuses a call, and a connection that cannot be made are [`tonic::Status`]es that name the address, the
/// cause and what to do.
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
        let answering = self.channel.call(request);
        let address = Arc::clone(&self.address);
        Box::pin(async move {
            let response = answering
                .await
                .map_err(|error| LineError::of_transport(&address, error))?;
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
