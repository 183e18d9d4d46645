//! What each node says of itself, asked once.

use std::time::Duration;

use futures::future::join_all;
use helve_proto::v1::{StatusReply, StatusRequest, cluster_service_client::ClusterServiceClient};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::unary::timed;
use crate::cluster::channel::Pool;

/// The status of each endpoint that the caller gave, `None` where none came in time.
pub(super) async fn survey(pool: &Pool, patience: Duration) -> Vec<Option<StatusReply>> {
    let statuses = pool.given().into_iter().map(|node| async move {
        let mut service = ClusterServiceClient::new(node.channel());
        let asked = service.status(timed(StatusRequest {}, patience));
        let span = tracing::debug_span!("try", address = node.authority(), number = 1);
        match timeout(patience, asked.instrument(span)).await {
            Ok(Ok(reply)) => Some(reply.into_inner()),
            Ok(Err(_)) | Err(_) => None,
        }
    });
    let span = tracing::debug_span!("call", rpc = "Status");
    join_all(statuses).instrument(span).await
}
