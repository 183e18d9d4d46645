//! Whether the endpoints of a command are of one cluster.

use std::time::Duration;

use helve_node::cluster_report::{Answer, mixed};
use helve_proto::v1::{StatusRequest, cluster_service_client::ClusterServiceClient};
use tokio::{task::JoinSet, time::timeout};

use super::{ClusterArgs, request};
use crate::ending::{Cause, Caused, Ending, Outcome};

/// How long endpoints may take to say of which cluster they are, before something is changed through
/// one of them.
const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// Refuses to change anything through endpoints of several clusters: the change would be of the
/// cluster that happens to answer. An endpoint that does not answer within 2 s, or within
/// `--timeout`, counts for none, and so does a node without a cluster. A single endpoint is not
/// asked.
///
/// # Errors
/// That they are, and which is of which; or that an endpoint or the flags cannot be used.
pub async fn check_one_cluster(args: &ClusterArgs) -> Outcome {
    if args.endpoints.len() < 2 {
        return Ok(());
    }
    let limit = args.timeout.min(CHECK_LIMIT);
    let mut asked = JoinSet::new();
    for endpoint in &args.endpoints {
        let mut client =
            ClusterServiceClient::new(args.channel(endpoint).map_err(Ending::Refused)?);
        let endpoint = endpoint.clone();
        asked.spawn(async move {
            let status = client.status(request(StatusRequest {}, limit));
            let reply = match timeout(limit, status).await {
                Ok(Ok(reply)) => Ok(reply.into_inner()),
                // Why one is silent is for the change itself to find out.
                Ok(Err(_)) | Err(_) => Err(()),
            };
            Answer { endpoint, reply }
        });
    }
    of_one_cluster(&asked.join_all().await)
}

/// Refuses endpoints of several clusters.
///
/// # Errors
/// That they are, and which is of which.
pub fn of_one_cluster<S>(answers: &[Answer<S>]) -> Outcome {
    match mixed(answers) {
        Some(problem) => Err(Caused::new(Cause::SeveralClusters, problem).into()),
        None => Ok(()),
    }
}
