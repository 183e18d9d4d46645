//! Whether the endpoints of a command are of one cluster.

use std::{panic, time::Duration};

use helve_node::cluster_report::{Answer, mixed};
use helve_proto::v1::{StatusRequest, cluster_service_client::ClusterServiceClient};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{ClusterArgs, request};
use crate::ending::{Cause, Caused, Ending, Outcome};

/// How long endpoints may take to say of which cluster they are, before something is changed through
/// one of them.
const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// How long the other endpoints may take once one has said of which cluster it is: one that is down
/// must not hold up every command.
const GRACE: Duration = Duration::from_millis(250);

/// Refuses to change anything through endpoints of several clusters: the change would be of the
/// cluster that happens to answer. An endpoint that does not answer within 2 s, within `--timeout`,
/// or within 250 ms after another has named its cluster, counts for none, and so does a node without
/// a cluster. A single endpoint is not asked.
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
    of_one_cluster(&gathered(asked).await)
}

/// The answers of all that were asked, without those that come too late after the first that names
/// a cluster.
async fn gathered(mut asked: JoinSet<Answer<()>>) -> Vec<Answer<()>> {
    let mut answers = Vec::new();
    let mut until = None;
    loop {
        let next = match until {
            Some(until) => timeout_at(until, asked.join_next()).await.ok().flatten(),
            None => asked.join_next().await,
        };
        match next {
            None => return answers,
            Some(Ok(answer)) => {
                let cluster = answer.reply.as_ref().map(|reply| reply.cluster_id.as_str());
                if until.is_none() && cluster.is_ok_and(|id| !id.is_empty()) {
                    until = Some(Instant::now() + GRACE);
                }
                answers.push(answer);
            }
            Some(Err(error)) => {
                if let Ok(panicked) = error.try_into_panic() {
                    panic::resume_unwind(panicked);
                }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use std::{future, pin::pin};

    use helve_proto::v1::StatusReply;
    use tokio::sync::oneshot;

    use super::*;

    /// How long an answer may take that comes: far longer than it does.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn of_cluster(endpoint: &str, id: &str) -> Answer<()> {
        Answer {
            endpoint: endpoint.to_owned(),
            reply: Ok(StatusReply {
                cluster_id: id.to_owned(),
                ..StatusReply::default()
            }),
        }
    }

    #[tokio::test]
    async fn silent_endpoint_does_not_hold_up_the_others() {
        let mut asked = JoinSet::new();
        asked.spawn(async { of_cluster("a", "one") });
        asked.spawn(future::pending());
        let gathered = timeout(PATIENCE, gathered(asked)).await.unwrap();
        assert_eq!(gathered.len(), 1);
    }

    #[tokio::test]
    async fn endpoints_without_a_cluster_begin_no_grace() {
        let (tell, told) = oneshot::channel::<()>();
        let mut asked = JoinSet::new();
        asked.spawn(async { of_cluster("a", "") });
        asked.spawn(async {
            Answer {
                endpoint: "b".to_owned(),
                reply: Err(()),
            }
        });
        asked.spawn(async {
            told.await.unwrap();
            of_cluster("c", "one")
        });
        let mut gathering = pin!(gathered(asked));
        assert!(timeout(2 * GRACE, &mut gathering).await.is_err());
        tell.send(()).unwrap();
        let gathered = timeout(PATIENCE, gathering).await.unwrap();
        assert_eq!(gathered.len(), 3);
    }

    #[tokio::test]
    async fn answers_of_two_clusters_are_refused_together() {
        let mut asked = JoinSet::new();
        asked.spawn(async { of_cluster("a", "one") });
        asked.spawn(async { of_cluster("b", "two") });
        let ending = of_one_cluster(&gathered(asked).await).unwrap_err();
        assert_eq!(ending.cause(), "several_clusters");
    }
}
