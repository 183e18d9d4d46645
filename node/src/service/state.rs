//! `helve.v1.StateService`.

use std::sync::Arc;

use bytes::Bytes;
use helve_machine::{
    Fault, Violation, check,
    query::{self, Page, Read, Scope},
};
use helve_proto::{
    command::v1::{command::Operation, outcome::Outcome as Kind},
    v1::{
        BatchRetrieveReply, BatchRetrieveRequest, BatchStoreReply, BatchStoreRequest, CallIdentity,
        DeleteKeyReply, DeleteKeyRequest, ExistsReply, ExistsRequest, ListKeysReply,
        ListKeysRequest, RetrieveReply, RetrieveRequest, StoreReply, StoreRequest,
        state_service_server::StateService,
    },
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Call, Services,
    admit::Admitted,
    failure::Failure,
    headed,
    list::{Listing, Parts},
    mutation::Mutation,
    query::Query,
};
use crate::storage::state_view::StateView;

/// Serves keys.
pub(crate) struct State(pub(crate) Arc<Services>);

#[async_trait]
impl StateService for State {
    type ListStream = Parts<ListKeysReply>;

    async fn store(&self, request: Request<StoreRequest>) -> Result<Response<StoreReply>, Status> {
        self.0.unary(request).await
    }

    async fn retrieve(
        &self,
        request: Request<RetrieveRequest>,
    ) -> Result<Response<RetrieveReply>, Status> {
        self.0.unary(request).await
    }

    async fn delete(
        &self,
        request: Request<DeleteKeyRequest>,
    ) -> Result<Response<DeleteKeyReply>, Status> {
        self.0.unary(request).await
    }

    async fn exists(
        &self,
        request: Request<ExistsRequest>,
    ) -> Result<Response<ExistsReply>, Status> {
        self.0.unary(request).await
    }

    async fn batch_store(
        &self,
        request: Request<BatchStoreRequest>,
    ) -> Result<Response<BatchStoreReply>, Status> {
        self.0.unary(request).await
    }

    async fn batch_retrieve(
        &self,
        request: Request<BatchRetrieveRequest>,
    ) -> Result<Response<BatchRetrieveReply>, Status> {
        self.0.unary(request).await
    }

    async fn list(
        &self,
        request: Request<ListKeysRequest>,
    ) -> Result<Response<Self::ListStream>, Status> {
        self.0.list(request)
    }
}

headed!(
    StoreReply,
    RetrieveReply,
    DeleteKeyReply,
    ExistsReply,
    BatchStoreReply,
    BatchRetrieveReply,
    ListKeysReply
);

impl Call for StoreRequest {
    const RPC: &'static str = "Store";
    type Reply = StoreReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<StoreReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for StoreRequest {
    type Reply = StoreReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn into_operation(self) -> Operation {
        Operation::Store(self)
    }

    fn reply(outcome: Kind) -> Option<StoreReply> {
        match outcome {
            Kind::Store(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for RetrieveRequest {
    const RPC: &'static str = "Retrieve";
    type Reply = RetrieveReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<RetrieveReply, Failure> {
        services.query(self, admitted).await
    }
}

impl Query for RetrieveRequest {
    type Reply = RetrieveReply;

    fn check(&self) -> Result<(), Violation> {
        check::retrieve(self)
    }

    fn answer(
        &self,
        view: &StateView<'_>,
        scope: &Scope<'_>,
    ) -> Result<Read<RetrieveReply>, Fault> {
        query::retrieve(view, scope, self)
    }
}

impl Call for DeleteKeyRequest {
    const RPC: &'static str = "DeleteKey";
    type Reply = DeleteKeyReply;

    async fn run(
        self,
        services: &Services,
        admitted: &Admitted,
    ) -> Result<DeleteKeyReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for DeleteKeyRequest {
    type Reply = DeleteKeyReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn into_operation(self) -> Operation {
        Operation::DeleteKey(self)
    }

    fn reply(outcome: Kind) -> Option<DeleteKeyReply> {
        match outcome {
            Kind::DeleteKey(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for ExistsRequest {
    const RPC: &'static str = "Exists";
    type Reply = ExistsReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<ExistsReply, Failure> {
        services.query(self, admitted).await
    }
}

impl Query for ExistsRequest {
    type Reply = ExistsReply;

    fn check(&self) -> Result<(), Violation> {
        check::exists(self)
    }

    fn answer(&self, view: &StateView<'_>, scope: &Scope<'_>) -> Result<Read<ExistsReply>, Fault> {
        query::exists(view, scope, self)
    }
}

impl Call for BatchStoreRequest {
    const RPC: &'static str = "BatchStore";
    type Reply = BatchStoreReply;

    async fn run(
        self,
        services: &Services,
        admitted: &Admitted,
    ) -> Result<BatchStoreReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for BatchStoreRequest {
    type Reply = BatchStoreReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn into_operation(self) -> Operation {
        Operation::BatchStore(self)
    }

    fn reply(outcome: Kind) -> Option<BatchStoreReply> {
        match outcome {
            Kind::BatchStore(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for BatchRetrieveRequest {
    const RPC: &'static str = "BatchRetrieve";
    type Reply = BatchRetrieveReply;

    async fn run(
        self,
        services: &Services,
        admitted: &Admitted,
    ) -> Result<BatchRetrieveReply, Failure> {
        services.query(self, admitted).await
    }
}

impl Query for BatchRetrieveRequest {
    type Reply = BatchRetrieveReply;

    fn check(&self) -> Result<(), Violation> {
        check::batch_retrieve(self)
    }

    fn answer(
        &self,
        view: &StateView<'_>,
        scope: &Scope<'_>,
    ) -> Result<Read<BatchRetrieveReply>, Fault> {
        query::batch_retrieve(view, scope, self)
    }
}

impl Listing for ListKeysRequest {
    const RPC: &'static str = "ListKeys";
    type Part = ListKeysReply;

    fn check(&self) -> Result<(), Violation> {
        check::list_keys(self)
    }

    fn resume_token(&self) -> &Bytes {
        &self.resume_token
    }

    fn resumed(mut self, token: Bytes) -> Self {
        self.resume_token = token;
        self
    }

    fn part(
        &self,
        view: &StateView<'_>,
        scope: &Scope<'_>,
        page: Page,
    ) -> Result<Read<ListKeysReply>, Fault> {
        query::list_keys(view, scope, self, page)
    }

    fn token_after(part: &ListKeysReply) -> &Bytes {
        &part.resume_token
    }
}
