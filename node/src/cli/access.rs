//! `helve token` and `helve tenant`: who may do what.

pub(super) mod tenant;
pub(super) mod token;

use anyhow::anyhow;
use helve_client::Line;
use helve_proto::{Reason, v1::access_service_client::AccessServiceClient};
use tonic::{Code, Response, Status};

use super::{
    cluster::{ClusterArgs, ending, reason},
    ending::Ending,
};

/// Asks one endpoint after the other, until one answers: each of these calls may be repeated.
async fn ask<R>(
    cluster: &ClusterArgs,
    call: impl AsyncFn(AccessServiceClient<Line>) -> Result<Response<R>, Status>,
) -> Result<R, Ending> {
    let mut last = Ending::Refused(anyhow!("--endpoints: there is none"));
    for endpoint in &cluster.endpoints {
        let channel = cluster.channel(endpoint).map_err(Ending::Refused)?;
        match call(AccessServiceClient::new(channel)).await {
            Ok(reply) => return Ok(reply.into_inner()),
            Err(status) => {
                last = match reason(&status) {
                    // What is there already is for something else: another command mends that, not another time.
                    Some(Reason::Conflict) => Ending::Refused(anyhow!("{}", status.message())),
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
