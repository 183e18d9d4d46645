//! `helve.v1.TransactService`.

use std::sync::Arc;

use helve_proto::{
    command::v1::{command::Operation, outcome::Outcome as Kind},
    v1::{
        CallIdentity, TransactReply, TransactRequest, operation,
        transact_service_server::TransactService,
    },
};
use tonic::{Request, Response, Status, async_trait};

use super::{Call, Services, admit::Admitted, failure::Failure, headed, mutation::Mutation};

/// Serves transactions.
pub(crate) struct Transact(pub(crate) Arc<Services>);

#[async_trait]
impl TransactService for Transact {
    async fn transact(
        &self,
        request: Request<TransactRequest>,
    ) -> Result<Response<TransactReply>, Status> {
        self.0.unary(request).await
    }
}

headed!(TransactReply);

impl Call for TransactRequest {
    const RPC: &'static str = "Transact";
    type Reply = TransactReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<TransactReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for TransactRequest {
    type Reply = TransactReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn mints(&self) -> usize {
        let mint = |o: &&helve_proto::v1::Operation| {
            matches!(o.operation, Some(operation::Operation::Mint(_)))
        };
        self.operations.iter().filter(mint).count()
    }

    fn into_operation(self) -> Operation {
        Operation::Transact(self)
    }

    fn reply(outcome: Kind) -> Option<TransactReply> {
        match outcome {
            Kind::Transact(reply) => Some(reply),
            _ => None,
        }
    }
}
