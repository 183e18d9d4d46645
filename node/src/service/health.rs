//! `grpc.health.v1.Health`: `liveness` says that this process answers; `readiness`, and the empty name, that the node should get
//! traffic.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tonic::{Request, Response, Status, async_trait};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server,
};

use super::Services;
use crate::{connections::Info, excerpt::Excerpt, limits};

pub(super) use watches::HealthWatches;

mod watches;

/// Where a watch counts that came over no connection.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Serves health.
pub(crate) struct Health {
    services: Arc<Services>,
}

impl Health {
    /// Health of these services.
    pub(crate) fn new(services: Arc<Services>) -> Self {
        Self { services }
    }
}

/// The health of a named service; `None` if there is no such name.
fn health(services: &Services, name: &str) -> Option<ServingStatus> {
    match name {
        "liveness" => Some(ServingStatus::Serving),
        "" | "readiness" => Some(match services.readiness() {
            Ok(()) => ServingStatus::Serving,
            Err(_) => ServingStatus::NotServing,
        }),
        _ => None,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

#[async_trait]
impl health_server::Health for Health {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = &request.get_ref().service;
        let status = health(&self.services, name).ok_or_else(|| {
            Status::not_found(format!(
                "`{}` is no service here: ask for readiness or liveness",
                Excerpt(name)
            ))
        })?;
        Ok(Response::new(response(status)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        // A port always tells where a connection comes from.
        let info = request.extensions().get::<Info>();
        let from = info.map_or(UNKNOWN, |info| info.from);
        let room = self.services.health_watches.admit(from)?;
        let ended = room.ended();
        let services = Arc::clone(&self.services);
        let name = request.into_inner().service;
        let mut ticks = interval(limits::HEALTH_WATCH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let stopping = services.stopping.clone().cancelled_owned();
        let changes = stream::unfold((ticks, None, room), move |(mut ticks, last, room)| {
            let (services, name) = (Arc::clone(&services), name.clone());
            async move {
                loop {
                    ticks.tick().await;
                    let now = health(&services, &name).unwrap_or(ServingStatus::ServiceUnknown);
                    if last != Some(now) {
                        return Some((Ok(response(now)), (ticks, Some(now), room)));
                    }
                }
            }
        });
        let lapsed = stream::once(async {
            Err(Status::unavailable(
                "the watch has lasted as long as one may, or others need its place: watch again",
            ))
        });
        let changes = changes
            .take_until(sleep(limits::HEALTH_WATCH_TIME_MAX))
            .take_until(ended)
            .chain(lapsed)
            .take_until(stopping);
        Ok(Response::new(changes.boxed()))
    }
}
