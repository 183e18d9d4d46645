//! What each node says of itself, asked once.

use std::time::Duration;

use futures::future::join_all;
use helve_proto::v1::{StatusReply, StatusRequest, cluster_service_client::ClusterServiceClient};
use tokio::time::timeout;

use super::unary::timed;
use crate::cluster::channel::Pool;

/// The status of each endpoint that the caller gave, `None` where none came in time.
pub(super) async fn survey(pool: &Pool, patience: Duration) -> Vec<Option<StatusReply>> {
    let statuses = pool.given().into_iter().map(|node| async move {
        let mut service = ClusterServiceClient::new(node.channel());
        let asked = service.status(timed(StatusRequest {}, patience));
        match timeout(patience, asked).await {
            Ok(Ok(reply)) => Some(reply.into_inner()),
            Ok(Err(_)) | Err(_) => None,
        }
    });
    join_all(statuses).await
}
