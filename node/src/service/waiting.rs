//! What a node answers that takes no part in a cluster yet, or not any more: who it is, and why.

use std::sync::Arc;

use helve_proto::v1::{
    AddMemberRequest, BackupPart, BackupRequest, DataKeyStatusReply, DataKeyStatusRequest,
    FollowLogPart, FollowLogRequest, NodeStatus, PromoteMemberRequest, RemoveMemberRequest,
    ReplaceMemberRequest, Role, SetDataKeyReply, SetDataKeyRequest, SetUpgradeHoldReply,
    SetUpgradeHoldRequest, StateDigestReply, StateDigestRequest, StatusReply, StatusRequest,
    TakeSnapshotReply, TakeSnapshotRequest, TransferLeaderReply, TransferLeaderRequest,
    cluster_service_server::{ClusterService, ClusterServiceServer},
};
use tonic::{Request, Response, Status, async_trait, service::Routes};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{self, HealthServer},
};

use super::{failure::Failure, members::ProgressStream, parts::Parts};
use crate::identity::{Identity, REMOVED};

/// A node that waits. Cheap to clone.
#[derive(Clone)]
pub struct Waiting(Arc<Identity>);

impl Waiting {
    /// The node with this identity waits.
    #[must_use]
    pub fn new(identity: Arc<Identity>) -> Self {
        Self(identity)
    }

    /// Why the node does not serve.
    #[must_use]
    pub fn why(&self) -> String {
        if self.0.is_removed() {
            return REMOVED.to_owned();
        }
        if let Some(why) = self.0.put_back() {
            return why;
        }
        let waits_for = self.0.waits_for();
        if waits_for.is_empty() {
            "this node asks its peers who they are".to_owned()
        } else {
            waits_for.as_ref().clone()
        }
    }

    fn status(&self) -> StatusReply {
        let record = self.0.record();
        let role = if self.0.is_removed() {
            Role::Removed
        } else {
            Role::Pristine
        };
        let node = NodeStatus {
            id: self.0.node_id(),
            seat: record.seat,
            role: role.into(),
            warning: self.why(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            feature_level: record.feature_level,
            client_address: record.client_address.clone(),
            peer_address: record.peer_address.clone(),
            pid: std::process::id(),
            ..NodeStatus::default()
        };
        StatusReply {
            node: Some(node),
            cluster_id: self.0.cluster_id().as_ref().clone(),
            ..StatusReply::default()
        }
    }

    fn refusal(&self) -> Status {
        Failure::Stopping(self.why()).into()
    }
}

/// The services of the client port: status and health; everything else is refused as not executed.
#[must_use]
pub fn routes(waiting: &Waiting) -> Routes {
    let refusing = waiting.clone();
    let mut routes = Routes::builder();
    routes
        .add_service(ClusterServiceServer::new(waiting.clone()))
        .add_service(HealthServer::new(waiting.clone()));
    let router = routes.routes().prepare().into_axum_router();
    let refuse = move || {
        let refusal = refusing.refusal();
        async move { refusal.into_http::<axum::body::Body>() }
    };
    Routes::from(router.fallback(refuse))
}

#[async_trait]
impl ClusterService for Waiting {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        Ok(Response::new(self.status()))
    }

    async fn transfer_leader(
        &self,
        _: Request<TransferLeaderRequest>,
    ) -> Result<Response<TransferLeaderReply>, Status> {
        Err(self.refusal())
    }

    async fn take_snapshot(
        &self,
        _: Request<TakeSnapshotRequest>,
    ) -> Result<Response<TakeSnapshotReply>, Status> {
        Err(self.refusal())
    }

    async fn state_digest(
        &self,
        _: Request<StateDigestRequest>,
    ) -> Result<Response<StateDigestReply>, Status> {
        Err(self.refusal())
    }

    type BackupStream = Parts<BackupPart>;

    async fn backup(
        &self,
        _: Request<BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        Err(self.refusal())
    }

    type FollowLogStream = Parts<FollowLogPart>;

    async fn follow_log(
        &self,
        _: Request<FollowLogRequest>,
    ) -> Result<Response<Self::FollowLogStream>, Status> {
        Err(self.refusal())
    }

    async fn data_key_status(
        &self,
        _: Request<DataKeyStatusRequest>,
    ) -> Result<Response<DataKeyStatusReply>, Status> {
        Err(self.refusal())
    }

    async fn set_data_key(
        &self,
        _: Request<SetDataKeyRequest>,
    ) -> Result<Response<SetDataKeyReply>, Status> {
        Err(self.refusal())
    }

    async fn set_upgrade_hold(
        &self,
        _: Request<SetUpgradeHoldRequest>,
    ) -> Result<Response<SetUpgradeHoldReply>, Status> {
        Err(self.refusal())
    }

    type AddMemberStream = ProgressStream;

    async fn add_member(
        &self,
        _: Request<AddMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Err(self.refusal())
    }

    type RemoveMemberStream = ProgressStream;

    async fn remove_member(
        &self,
        _: Request<RemoveMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Err(self.refusal())
    }

    type ReplaceMemberStream = ProgressStream;

    async fn replace_member(
        &self,
        _: Request<ReplaceMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Err(self.refusal())
    }

    type PromoteMemberStream = ProgressStream;

    async fn promote_member(
        &self,
        _: Request<PromoteMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Err(self.refusal())
    }
}

#[async_trait]
impl health_server::Health for Waiting {
    type WatchStream = futures::stream::BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let status = if request.get_ref().service == "liveness" {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        Ok(Response::new(HealthCheckResponse {
            status: status.into(),
        }))
    }

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(self.refusal())
    }
}
