//! `helve.v1.HandleService`.

use std::sync::Arc;

use bytes::Bytes;
use helve_machine::{
    Fault, Violation, check,
    query::{self, Page, Read, Scope},
};
use helve_proto::v1::{
    ClaimReply, ClaimRequest, CountReply, CountRequest, DeleteReply, DeleteRequest, GetReply,
    GetRequest, ListReply, ListRequest, MintReply, MintRequest, PutReply, PutRequest, RenewReply,
    RenewRequest, TakeReply, TakeRequest, handle_service_server::HandleService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{Services, list::Listing, mutation::mutations, parts::Parts, query::queries};
use crate::{limits, storage::state_view::StateView, vault::Asked};

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

    async fn claim(&self, request: Request<ClaimRequest>) -> Result<Response<ClaimReply>, Status> {
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

mutations! {
    Mint: MintRequest -> MintReply, minting |_| 1;
    Put: PutRequest -> PutReply;
    Take: TakeRequest -> TakeReply, answering |_| limits::ANSWER_RECORD_BYTES_MAX;
    Renew: RenewRequest -> RenewReply;
    Delete: DeleteRequest -> DeleteReply;
    Claim: ClaimRequest -> ClaimReply, answering |_| limits::ANSWER_RECORD_BYTES_MAX;
}

queries! {
    Get: GetRequest -> GetReply, by get, answering |_| limits::ANSWER_RECORD_BYTES_MAX;
    Count: CountRequest -> CountReply, by count, from Disk;
}

impl Listing for ListRequest {
    const RPC: &'static str = "List";
    type Part = ListReply;

    fn asked(&self) -> Asked {
        if self.with_values {
            Asked::Values
        } else {
            Asked::Names
        }
    }

    fn check(&self) -> Result<(), Violation> {
        check::list(self)
    }

    fn resume_token(&self) -> &Bytes {
        &self.resume_token
    }

    fn rest(self, part: &ListReply) -> Option<Self> {
        query::rest(self, part)
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
