//! `helve.v1.StateService`.

use std::sync::Arc;

use bytes::Bytes;
use helve_machine::{
    Fault, Violation, check,
    limits::{TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX},
    query::{self, Page, Read, Scope},
};
use helve_proto::v1::{
    BatchRetrieveReply, BatchRetrieveRequest, BatchStoreReply, BatchStoreRequest, DeleteKeyReply,
    DeleteKeyRequest, ExistsReply, ExistsRequest, ListKeysReply, ListKeysRequest, RetrieveReply,
    RetrieveRequest, StoreReply, StoreRequest, state_service_server::StateService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{Services, list::Listing, mutation::mutations, parts::Parts, query::queries};
use crate::{limits, storage::state_view::StateView, vault::Asked};

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

mutations! {
    Store: StoreRequest -> StoreReply;
    DeleteKey: DeleteKeyRequest -> DeleteKeyReply;
    BatchStore: BatchStoreRequest -> BatchStoreReply, answering |batch| limits::ANSWER_NAMES_BYTES_MAX * batch.items.len();
}

queries! {
    Retrieve: RetrieveRequest -> RetrieveReply, by retrieve, answering |_| limits::ANSWER_RECORD_BYTES_MAX;
    Exists: ExistsRequest -> ExistsReply, by exists;
    BatchRetrieve: BatchRetrieveRequest -> BatchRetrieveReply, by batch_retrieve, answering retrieved_bytes_max;
}

fn retrieved_bytes_max(request: &BatchRetrieveRequest) -> usize {
    let values = VALUE_BYTES_MAX * request.keys.len();
    values.min(TRANSACTION_BYTES_MAX) + limits::ANSWER_NAMES_BYTES_MAX * request.keys.len()
}

impl Listing for ListKeysRequest {
    const RPC: &'static str = "ListKeys";
    type Part = ListKeysReply;

    fn asked(&self) -> Asked {
        if self.with_values {
            Asked::Values
        } else {
            Asked::Names
        }
    }

    fn check(&self) -> Result<(), Violation> {
        check::list_keys(self)
    }

    fn resume_token(&self) -> &Bytes {
        &self.resume_token
    }

    fn rest(self, part: &ListKeysReply) -> Option<Self> {
        query::keys_rest(self, part)
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
