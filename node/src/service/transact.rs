//! `helve.v1.TransactService`.

use std::sync::Arc;

use helve_machine::limits::{TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};
use helve_proto::v1::{
    TransactReply, TransactRequest, operation, transact_service_server::TransactService,
};
use tonic::{Request, Response, Status, async_trait};

use super::{Services, mutation::mutations};
use crate::limits::ANSWER_NAMES_BYTES_MAX;

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

mutations! {
    Transact: TransactRequest -> TransactReply, minting mints, handing out takes, answering transacted_bytes_max;
}

fn mints(request: &TransactRequest) -> usize {
    let operations = request.operations.iter();
    operations
        .filter(|part| matches!(part.operation, Some(operation::Operation::Mint(_))))
        .count()
}

fn transacted_bytes_max(request: &TransactRequest) -> usize {
    let values = VALUE_BYTES_MAX * takes(request).len();
    values.min(TRANSACTION_BYTES_MAX) + ANSWER_NAMES_BYTES_MAX * request.operations.len()
}

fn takes(request: &TransactRequest) -> Vec<usize> {
    let operations = request.operations.iter().enumerate();
    let takes = operations
        .filter(|(_, part)| matches!(part.operation, Some(operation::Operation::Take(_))));
    takes.map(|(at, _)| at).collect()
}
