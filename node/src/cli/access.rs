//! `helve token` and `helve tenant`: who may do what.

pub(super) mod tenant;
pub(super) mod token;

use anyhow::anyhow;
use helve_client::Line;
use helve_proto::{
    Reason,
    v1::{CallIdentity, access_service_client::AccessServiceClient},
};
use tonic::{Code, Response, Status};

use super::{
    cluster::{ClusterArgs, ending, ending_of_change, identity, reason},
    ending::{Cause, Caused, Ending},
};

/// Asks one endpoint after the other, until one answers.
async fn ask<R>(
    cluster: &ClusterArgs,
    call: impl AsyncFn(AccessServiceClient<Line>, Option<CallIdentity>) -> Result<Response<R>, Status>,
) -> Result<R, Ending> {
    ask_with(cluster, ending, call).await
}

/// Has one endpoint after the other change something, until one answers: under one identity, so that the call is carried out once.
async fn change<R>(
    cluster: &ClusterArgs,
    call: impl AsyncFn(AccessServiceClient<Line>, Option<CallIdentity>) -> Result<Response<R>, Status>,
) -> Result<R, Ending> {
    ask_with(cluster, ending_of_change, call).await
}

async fn ask_with<R>(
    cluster: &ClusterArgs,
    ending: fn(&Status) -> Ending,
    call: impl AsyncFn(AccessServiceClient<Line>, Option<CallIdentity>) -> Result<Response<R>, Status>,
) -> Result<R, Ending> {
    let mut last = Ending::Refused(anyhow!("--endpoints: there is none"));
    let mut identity = identity()?;
    for (position, endpoint) in cluster.endpoints.iter().enumerate() {
        let channel = cluster.channel(endpoint).map_err(Ending::Refused)?;
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
                last = match reason(&status) {
                    // What is there already is for something else: another command mends that, not another time.
                    Some(reason @ Reason::Conflict) => {
                        let caused = Caused::new(Cause::Told(reason), status.message());
                        Ending::Refused(caused.into())
                    }
                    _ => ending(&status),
                };
                if !matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) {
                    break;
                }
            }
        }
    }
    Err(last)
}

fn is_of_another_time(refused: &Status) -> bool {
    matches!(
        reason(refused),
        Some(Reason::TooEarly | Reason::RequestTooOld)
    )
}
