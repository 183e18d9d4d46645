//! `helve.v1.ClusterService`.

use std::{future::Future, sync::Arc, time::Duration};

use helve_machine::query::{Read, list_tenants};
use helve_proto::v1::{
    AddMemberRequest, BackupPart, BackupRequest, DataKeyStatusReply, DataKeyStatusRequest,
    FollowLogPart, FollowLogRequest, ListTenantsRequest, PromoteMemberRequest, RemoveMemberRequest,
    ReplaceMemberRequest, SetDataKeyReply, SetDataKeyRequest, SetUpgradeHoldReply,
    SetUpgradeHoldRequest, StateDigestReply, StateDigestRequest, StatusReply, StatusRequest,
    TakeSnapshotReply, TakeSnapshotRequest, TenantInfo, TransferLeaderReply, TransferLeaderRequest,
    cluster_service_server::ClusterService, set_upgrade_hold_request::Target,
};
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Services, admit, audited, backup,
    caller::Caller,
    failure::{Failure, Lateness},
    follow,
    members::ProgressStream,
    parts::Parts,
    query::scope,
    status::Problem,
};
use crate::{
    audit::{Ended, Entry},
    limits,
    membership::{MembershipError, transfer::transfer_leader},
    metrics::CallTimer,
    read_index::{Place, ReadError, ReadView},
    upgrade::hold,
};

/// How long a snapshot may take.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(300);

/// Serves operators.
pub(crate) struct Cluster(pub(crate) Arc<Services>);

#[async_trait]
impl ClusterService for Cluster {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let mut timer = self.0.metrics.call("Status");
        let status = self.0.status();
        timer.answered("OK");
        Ok(Response::new(status))
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<TransferLeaderReply>, Status> {
        let to = request.get_ref().to;
        let subject = || (to != 0).then(|| format!("node {to}"));
        let transfer = async {
            let now = transfer_leader(&self.0.cluster.consensus, (to != 0).then_some(to)).await?;
            Ok::<_, MembershipError>(TransferLeaderReply {
                leader_id: now.leader.unwrap_or(0),
                term: now.term,
            })
        };
        self.operate("TransferLeader", &request, subject, transfer)
            .await
    }

    async fn take_snapshot(
        &self,
        request: Request<TakeSnapshotRequest>,
    ) -> Result<Response<TakeSnapshotReply>, Status> {
        let snapshot = async {
            let compaction = self.0.cluster.consensus.compaction();
            let taken = compaction.take_snapshot(SNAPSHOT_LIMIT).await;
            taken.map(|index| TakeSnapshotReply { index })
        };
        self.operate("TakeSnapshot", &request, || None, snapshot)
            .await
    }

    async fn state_digest(
        &self,
        request: Request<StateDigestRequest>,
    ) -> Result<Response<StateDigestReply>, Status> {
        let timer = self.0.metrics.call("StateDigest");
        let deadline = admit::deadline(request.metadata(), Instant::now());
        let entry = self.begin_operation("StateDigest", &request, || None)?;
        let digest = async {
            let deadline = deadline?;
            // No caller must find that what it was told is missing.
            self.0.reader.settle(deadline).await?;
            let digest = self.0.digester.digest(deadline).await;
            digest.map_err(Failure::from)
        };
        let reply = digest.await.map(|digest| StateDigestReply {
            id: self.0.cluster.consensus.identity().node_id(),
            applied_index: digest.applied_index,
            rows: digest.rows,
            digest: digest.digest.to_vec().into(),
        });
        counted((timer, entry), reply)
    }

    type BackupStream = Parts<BackupPart>;

    async fn backup(
        &self,
        request: Request<BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        backup::backup(&self.0, request)
    }

    type FollowLogStream = Parts<FollowLogPart>;

    async fn follow_log(
        &self,
        request: Request<FollowLogRequest>,
    ) -> Result<Response<Self::FollowLogStream>, Status> {
        follow::follow_log(&self.0, request)
    }

    async fn data_key_status(
        &self,
        request: Request<DataKeyStatusRequest>,
    ) -> Result<Response<DataKeyStatusReply>, Status> {
        let timer = self.0.metrics.call("DataKeyStatus");
        let deadline = admit::deadline(request.metadata(), Instant::now());
        let entry = self.begin_operation("DataKeyStatus", &request, || None)?;
        let status = async {
            let id = self.0.cluster.consensus.identity().node_id();
            self.0.data_keys.status(id, deadline?).await
        };
        counted((timer, entry), status.await)
    }

    async fn set_data_key(
        &self,
        request: Request<SetDataKeyRequest>,
    ) -> Result<Response<SetDataKeyReply>, Status> {
        let timer = self.0.metrics.call("SetDataKey");
        let deadline = admit::deadline(request.metadata(), Instant::now());
        let about = || Some(format!("data key {:?}", request.get_ref().target));
        let entry = self.begin_operation("SetDataKey", &request, about)?;
        let request = request.into_inner();
        let set = async { self.0.data_keys.set(request, deadline?).await };
        counted((timer, entry), set.await)
    }

    async fn set_upgrade_hold(
        &self,
        request: Request<SetUpgradeHoldRequest>,
    ) -> Result<Response<SetUpgradeHoldReply>, Status> {
        let asked = *request.get_ref();
        let subject = || {
            let what = match asked.target {
                Some(Target::Hold(_)) => "hold the feature level",
                Some(Target::Release(_)) => "release the feature level",
                None => "neither hold nor release",
            };
            Some(what.to_owned())
        };
        let set = hold::set(&self.0.cluster.consensus, asked);
        self.operate("SetUpgradeHold", &request, subject, set).await
    }

    type AddMemberStream = ProgressStream;

    async fn add_member(
        &self,
        request: Request<AddMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Ok(self.0.change_members(request))
    }

    type RemoveMemberStream = ProgressStream;

    async fn remove_member(
        &self,
        request: Request<RemoveMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Ok(self.0.change_members(request))
    }

    type ReplaceMemberStream = ProgressStream;

    async fn replace_member(
        &self,
        request: Request<ReplaceMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Ok(self.0.change_members(request))
    }

    type PromoteMemberStream = ProgressStream;

    async fn promote_member(
        &self,
        request: Request<PromoteMemberRequest>,
    ) -> Result<Response<ProgressStream>, Status> {
        Ok(self.0.change_members(request))
    }
}

impl Services {
    /// The node's status, as it is said everywhere: gRPC, metrics, probes.
    pub(crate) fn status(&self) -> StatusReply {
        let mut status = self.cluster.status.now();
        let Some(node) = &mut status.node else {
            return status;
        };
        self.data_keys.show(node);
        if let Err(why) = self.readiness() {
            node.ready = false;
            if node.warning.is_empty() {
                node.warning = why;
            }
        }
        status
    }

    /// What each tenant uses, by the rows that this node has.
    pub(crate) async fn usage(&self) -> Result<Vec<TenantInfo>, ReadError> {
        let deadline = Instant::now() + limits::DEADLINE_DEFAULT;
        let all = ListTenantsRequest::default();
        let usage =
            move |view: &ReadView<'_>| list_tenants(view.view, &scope(view, limits::TENANT), &all);
        match self
            .reader
            .read_applied(deadline, Place::Disk, usage)
            .await?
        {
            Read::Answer(reply) => Ok(reply.tenants),
            Read::Lapsed | Read::Renew(_) | Read::Busy | Read::TooLarge => Ok(Vec::new()),
        }
    }
}

impl Cluster {
    /// An operator's call begins, and will be recorded.
    fn begin_operation<Q>(
        &self,
        rpc: &'static str,
        request: &Request<Q>,
        subject: impl FnOnce() -> Option<String>,
    ) -> Result<Entry, Failure> {
        let caller = Caller::of(request)?;
        self.0
            .begin_admin(rpc, (&caller, audited::peer(request)), subject)
    }

    /// Does what an operator asked for, until its deadline.
    async fn operate<Q, R, E: Into<Failure>>(
        &self,
        rpc: &'static str,
        request: &Request<Q>,
        subject: impl FnOnce() -> Option<String>,
        work: impl Future<Output = Result<R, E>>,
    ) -> Result<Response<R>, Status> {
        let timer = self.0.metrics.call(rpc);
        let deadline = admit::deadline(request.metadata(), Instant::now())?;
        let entry = self.begin_operation(rpc, request, subject)?;
        let done = match timeout_at(deadline, work).await {
            Ok(done) => done.map_err(Into::into),
            Err(_) => Err(Failure::Ambiguous {
                detail: "it was not finished within the deadline; look at `helve status`".into(),
                late: Lateness::DeadlinePassed,
            }),
        };
        counted((timer, entry), done)
    }
}

/// Answers, and counts and records the answer.
fn counted<R>(
    (mut timer, entry): (CallTimer<'_>, Entry),
    done: Result<R, Failure>,
) -> Result<Response<R>, Status> {
    let done = done.map_err(Problem::from);
    let outcome = done
        .as_ref()
        .map_or_else(|problem| problem.reason().as_str(), |_| "OK");
    timer.answered(outcome);
    entry.ended(|| Ended::with(outcome));
    done.map(Response::new).map_err(Problem::into_status)
}
