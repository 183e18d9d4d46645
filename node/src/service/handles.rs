//! `helve.v1.HandleService`.

use std::sync::Arc;

use bytes::Bytes;
use helve_machine::{
    Fault, Violation, check,
    query::{self, Page, Read, Scope},
};
use helve_proto::{
    command::v1::{command::Operation, outcome::Outcome as Kind},
    v1::{
        CallIdentity, CountReply, CountRequest, DeleteReply, DeleteRequest, GetReply, GetRequest,
        ListReply, ListRequest, MintReply, MintRequest, PutReply, PutRequest, RenewReply,
        RenewRequest, TakeReply, TakeRequest, handle_service_server::HandleService,
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

/// Serves handles.
pub(crate) struct Handles(pub(crate) Arc<Services>);

#[async_trait]
impl HandleService for Handles {
    type ListStream = Parts<ListReply>;

    async fn mint(&self, request: Request<MintRequest>) -> Result<Response<MintReply>, Status> {
        self.0.unary(request).await
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutReply>, Status> {
        self.0.unary(request).await
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetReply>, Status> {
        self.0.unary(request).await
    }

    async fn take(&self, request: Request<TakeRequest>) -> Result<Response<TakeReply>, Status> {
        self.0.unary(request).await
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewReply>, Status> {
        self.0.unary(request).await
    }

    async fn delete(
        &self,
        request: Request<DeleteRequest>,
    ) -> Result<Response<DeleteReply>, Status> {
        self.0.unary(request).await
    }

    async fn count(&self, request: Request<CountRequest>) -> Result<Response<CountReply>, Status> {
        self.0.unary(request).await
    }

    async fn list(
        &self,
        request: Request<ListRequest>,
    ) -> Result<Response<Self::ListStream>, Status> {
        self.0.list(request)
    }
}

headed!(
    MintReply,
    PutReply,
    GetReply,
    TakeReply,
    RenewReply,
    DeleteReply,
    CountReply,
    ListReply
);

impl Call for MintRequest {
    const RPC: &'static str = "Mint";
    type Reply = MintReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<MintReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for MintRequest {
    type Reply = MintReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn mints(&self) -> usize {
        1
    }

    fn into_operation(self) -> Operation {
        Operation::Mint(self)
    }

    fn reply(outcome: Kind) -> Option<MintReply> {
        match outcome {
            Kind::Mint(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for PutRequest {
    const RPC: &'static str = "Put";
    type Reply = PutReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<PutReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for PutRequest {
    type Reply = PutReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn into_operation(self) -> Operation {
        Operation::Put(self)
    }

    fn reply(outcome: Kind) -> Option<PutReply> {
        match outcome {
            Kind::Put(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for GetRequest {
    const RPC: &'static str = "Get";
    type Reply = GetReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<GetReply, Failure> {
        services.query(self, admitted).await
    }
}

impl Query for GetRequest {
    type Reply = GetReply;

    fn check(&self) -> Result<(), Violation> {
        check::get(self)
    }

    fn answer(&self, view: &StateView<'_>, scope: &Scope<'_>) -> Result<Read<GetReply>, Fault> {
        query::get(view, scope, self)
    }
}

impl Call for TakeRequest {
    const RPC: &'static str = "Take";
    type Reply = TakeReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<TakeReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for TakeRequest {
    type Reply = TakeReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn into_operation(self) -> Operation {
        Operation::Take(self)
    }

    fn reply(outcome: Kind) -> Option<TakeReply> {
        match outcome {
            Kind::Take(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for RenewRequest {
    const RPC: &'static str = "Renew";
    type Reply = RenewReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<RenewReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for RenewRequest {
    type Reply = RenewReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn into_operation(self) -> Operation {
        Operation::Renew(self)
    }

    fn reply(outcome: Kind) -> Option<RenewReply> {
        match outcome {
            Kind::Renew(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for DeleteRequest {
    const RPC: &'static str = "Delete";
    type Reply = DeleteReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<DeleteReply, Failure> {
        services.mutate(self, admitted).await
    }
}

impl Mutation for DeleteRequest {
    type Reply = DeleteReply;

    fn take_identity(&mut self) -> Option<CallIdentity> {
        self.identity.take()
    }

    fn into_operation(self) -> Operation {
        Operation::Delete(self)
    }

    fn reply(outcome: Kind) -> Option<DeleteReply> {
        match outcome {
            Kind::Delete(reply) => Some(reply),
            _ => None,
        }
    }
}

impl Call for CountRequest {
    const RPC: &'static str = "Count";
    type Reply = CountReply;

    async fn run(self, services: &Services, admitted: &Admitted) -> Result<CountReply, Failure> {
        services.query(self, admitted).await
    }
}

impl Query for CountRequest {
    type Reply = CountReply;

    fn check(&self) -> Result<(), Violation> {
        check::count(self)
    }

    fn answer(&self, view: &StateView<'_>, scope: &Scope<'_>) -> Result<Read<CountReply>, Fault> {
        query::count(view, scope, self)
    }
}

impl Listing for ListRequest {
    const RPC: &'static str = "List";
    type Part = ListReply;

    fn check(&self) -> Result<(), Violation> {
        check::list(self)
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
    ) -> Result<Read<ListReply>, Fault> {
        query::list(view, scope, self, page)
    }

    fn token_after(part: &ListReply) -> &Bytes {
        &part.resume_token
    }
}
