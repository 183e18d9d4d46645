//! `helve.v1.CallService`.

use std::sync::Arc;

use futures::stream::BoxStream;
use helve_proto::{
    command::v1::{command::Operation, outcome::Outcome as Kind},
    v1::{
        CallIdentity, ExchangeReply, ExchangeRequest, OpenSessionReply, OpenSessionRequest,
        SessionCall, call_identity::Identity, call_service_server::CallService,
    },
};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{
    Call, Services,
    admit::{Admitted, Origin},
    exchange,
    failure::Failure,
    mutation::Mutation,
};

/// Serves replay sessions, and calls in batches.
pub(crate) struct Calls(pub(crate) Arc<Services>);

#[async_trait]
impl CallService for Calls {
    type ExchangeStream = BoxStream<'static, Result<ExchangeReply, Status>>;

    async fn open_session(
        &self,
        request: Request<OpenSessionRequest>,
    ) -> Result<Response<OpenSessionReply>, Status> {
        self.0.unary(request).await
    }

    async fn exchange(
        &self,
        request: Request<Streaming<ExchangeRequest>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let from = Origin::of(&request)?;
        Ok(Response::new(exchange::start(
            Arc::clone(&self.0),
            from,
            request.into_inner(),
        )))
    }
}

impl Call for OpenSessionRequest {
    const RPC: &'static str = "OpenSession";
    type Reply = OpenSessionReply;

    async fn run(
        self,
        services: &Services,
        admitted: &Admitted,
    ) -> Result<OpenSessionReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for OpenSessionRequest {
    type Reply = OpenSessionReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        // Opening is idempotent by the session's own id, so that is its identity: the node need not lend it one.
        let session_id = self.session_id.clone();
        let call = SessionCall {
            session_id,
            seq: 0,
            first_incomplete: 0,
        };
        Some(CallIdentity {
            identity: Some(Identity::Session(call)),
        })
    }

    fn into_operation(self) -> Operation {
        Operation::OpenSession(self)
    }

    fn reply(outcome: Kind) -> Option<OpenSessionReply> {
        match outcome {
            Kind::OpenSession(reply) => Some(reply),
            _ => None,
        }
    }
}
