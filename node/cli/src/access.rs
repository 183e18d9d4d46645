//! `helve token` and `helve tenant`: who may do what.

pub(super) mod tenant;
pub(super) mod token;

use anyhow::anyhow;
use helve_client::NodeConnection;
use helve_command::{
    cluster::{ClusterArgs, check_one_cluster, ending, ending_of_change, identity, reason},
    ending::{Cause, Caused, Ending},
};
use helve_proto::{
    Reason,
    v1::{CallIdentity, access_service_client::AccessServiceClient},
};
use tonic::{Code, Response, Status};

/// Asks one endpoint after the other, until one answers.
async fn ask<R>(
    cluster: &ClusterArgs,
    call: impl AsyncFn(
        AccessServiceClient<NodeConnection>,
        Option<CallIdentity>,
    ) -> Result<Response<R>, Status>,
) -> Result<R, Ending> {
    ask_with(cluster, ending, call).await
}

/// Has one endpoint after the other change something, until one answers: under one identity, so that the call is carried out once.
async fn change<R>(
    cluster: &ClusterArgs,
    call: impl AsyncFn(
        AccessServiceClient<NodeConnection>,
        Option<CallIdentity>,
    ) -> Result<Response<R>, Status>,
) -> Result<R, Ending> {
    check_one_cluster(cluster).await?;
    ask_with(cluster, ending_of_change, call).await
}

async fn ask_with<R>(
    cluster: &ClusterArgs,
    ending: fn(&Status) -> Ending,
    call: impl AsyncFn(
        AccessServiceClient<NodeConnection>,
        Option<CallIdentity>,
    ) -> Result<Response<R>, Status>,
) -> Result<R, Ending> {
    let mut last = Ending::Refused(anyhow!("--endpoints: none is given"));
    let mut identity = identity()?;
    // Unusable flags are refused before a call is sent.
    let channels = cluster.endpoints.iter().map(|at| cluster.channel(at));
    let channels: Vec<_> = channels
        .collect::<Result<_, _>>()
        .map_err(Ending::Refused)?;
    for (position, channel) in channels.into_iter().enumerate() {
        let client = AccessServiceClient::new(channel);
        let mut answer = call(client.clone(), identity.clone()).await;
        // This machine's clock and the cluster's time differ. What an operator does must not wait for that to be mended.
        if position == 0 && answer.as_ref().is_err_and(is_of_another_time) {
            identity = None;
            answer = call(client, None).await;
        }
        match answer {
            Ok(reply) => return Ok(reply.into_inner()),
            Err(status) => {
                let ending = match reason(&status) {
                    // What is there already is for something else: another command mends that, not another time.
                    Some(reason @ Reason::Conflict) => {
                        let caused = Caused::new(Cause::Told(reason), status.message());
                        Ending::Refused(caused.into())
                    }
                    _ => ending(&status),
                };
                last = after(last, ending);
                // A node that says nothing, or not now, is not the last word.
                let is_final = !matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
                if is_final && reason(&status).is_some() {
                    break;
                }
            }
        }
    }
    Err(last)
}

/// How a call ends that ended as `before` at one endpoint and as `now` at the next. If the first may
/// have done it, that stays in doubt until another node gives its outcome. A node that cannot say, or
/// that does not let the caller in, gives none; nor does what answers in a node's place.
fn after(before: Ending, now: Ending) -> Ending {
    let is_outcome = match now.caused().map(|caused| caused.cause) {
        Some(Cause::Told(reason)) => !matches!(reason, Reason::Unauthenticated | Reason::Denied),
        _ => false,
    };
    match (&before, &now) {
        (Ending::Unknown(_), Ending::Refused(_) | Ending::Absent(_)) if is_outcome => now,
        (Ending::Unknown(_), _) => before,
        _ => now,
    }
}

fn is_of_another_time(refused: &Status) -> bool {
    matches!(
        reason(refused),
        Some(Reason::TooEarly | Reason::RequestTooOld)
    )
}
