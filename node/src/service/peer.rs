//! What nodes ask of each other. Every message is checked to be meant for this node before anything acts on it.

mod meant;

use std::sync::Arc;

use futures::StreamExt;
use helve_proto::{
    Reason,
    peer::v1::{
        AppendReply, AppendRequest, DataKeysReply, DataKeysRequest, ForwardBatch, ForwardReply,
        HelloReply, HelloRequest, JoinReply, JoinRequest, PeerHeader, PeerStatusReply,
        PeerStatusRequest, ReadIndexReply, ReadIndexRequest, SnapshotPart, SnapshotReply,
        TransferReply, TransferRequest, UpdateRecordReply, UpdateRecordRequest, VoteReply,
        VoteRequest, join_reply, peer_service_server::PeerService,
    },
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use self::meant::{Replies, Sender, check, misdirected, until_ended, while_meant};
use crate::{
    audit::Audit,
    identity::Identity,
    limits::{FORWARD_BATCHES_MAX, FORWARDED_MESSAGES_MAX},
    membership::{MemberChanges, MembershipError, known_membership::KnownMembership, records},
    propose::Proposer,
    raft::{Consensus, receive::ReceiveError},
    service::{
        Services, audited,
        forwarded::{Executing, Executor},
        seats, snapshot_intake, status,
    },
    stamp::Stamper,
    storage::{checkpoint::Snapshots, data_dir::Write},
    vault::Vault,
};

/// What a node has once it runs; before that it can only say who it is.
#[derive(Clone)]
pub struct Running {
    /// Its part in consensus.
    pub consensus: Consensus,
    /// Lets nodes in.
    pub changes: MemberChanges,
    /// Where forwarded commands go.
    pub proposer: Proposer,
    /// The leader's stamps.
    pub stamper: Arc<Stamper>,
    /// The keys that values are sealed under.
    pub vault: Arc<Vault>,
    /// Where received snapshots are put together.
    pub snapshots: Arc<Snapshots>,
    /// Where forwarded administrative commands are recorded.
    pub audit: Audit,
    /// What the node says of itself.
    pub services: Arc<Services>,
}

/// Serves the peer port.
pub struct PeerServer {
    identity: Arc<Identity>,
    running: watch::Receiver<Option<Running>>,
}

impl PeerServer {
    /// Serves for this node; `running` is set once it has an id.
    #[must_use]
    pub fn new(identity: Arc<Identity>, running: watch::Receiver<Option<Running>>) -> Self {
        Self { identity, running }
    }

    fn running(&self) -> Result<Running, Status> {
        self.running.borrow().clone().ok_or_else(|| {
            status::status(
                tonic::Code::Unavailable,
                Reason::NoLeader,
                "this node has no id yet",
            )
        })
    }

    /// What it has for votes, entries and snapshots: nothing while it asks its peers whether its disk is the newest that they saw.
    fn taking_part(&self) -> Result<Running, Status> {
        let running = self.running()?;
        if self.identity.acknowledged().takes_part() {
            return Ok(running);
        }
        Err(status::status(
            tonic::Code::Unavailable,
            Reason::NoLeader,
            "this node does not take part yet: it asks its peers whether its disk holds what it acknowledged",
        ))
    }

    /// As [`taking_part`](Self::taking_part), for a message that is meant for this node.
    fn takes_part(&self, header: Option<&PeerHeader>) -> Result<Consensus, Status> {
        let running = self.taking_part()?;
        check(&self.identity, &running.consensus, header, Sender::Anyone)?;
        Ok(running.consensus)
    }

    fn checked(&self, header: Option<&PeerHeader>, sender: Sender) -> Result<Running, Status> {
        let running = self.running()?;
        check(&self.identity, &running.consensus, header, sender)?;
        Ok(running)
    }

    /// The asker may take part once it is answered, and must not come back on a disk from before.
    async fn remember_run(&self) {
        let identity = Arc::clone(&self.identity);
        let store = move || identity.acknowledged().store(Write::Synced);
        match tokio::task::spawn_blocking(store).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "that a peer has started cannot be stored: if its disk is put back, that may go unnoticed");
            }
            Err(error) => tracing::warn!(%error, "that a peer has started was not stored"),
        }
    }

    /// A node with the data of another cluster gets no seat in this one.
    fn check_cluster(&self, theirs: &str) -> Result<(), Status> {
        let checked = self.identity.check_cluster(theirs);
        checked.map_err(|refusal| misdirected(&refusal))
    }

    /// A committed membership, later than one that the asker stood in, is without it.
    fn has_removed(&self, consensus: &Consensus, asker: &HelloRequest) -> bool {
        let ours = self.identity.cluster_id();
        let known = KnownMembership::of(&asker.uuid, consensus);
        let is_later = asker.member_at != 0 && known.index > asker.member_at;
        let is_known = known.member || consensus.members().by_uuid(&asker.uuid).is_some();
        // A founder that died at once may not have heard the cluster's name.
        let is_ours = asker.cluster_id.is_empty() || asker.cluster_id == *ours;
        !ours.is_empty() && is_ours && is_later && !is_known
    }
}

fn refused(error: &ReceiveError) -> Status {
    let (code, reason) = match error {
        ReceiveError::Malformed(_) => (tonic::Code::InvalidArgument, Reason::BadRequest),
        ReceiveError::Stopped(_) => (tonic::Code::Unavailable, Reason::Stopping),
    };
    status::status(code, reason, &error.to_string())
}

#[tonic::async_trait]
impl PeerService for PeerServer {
    async fn hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let asker = request.into_inner();
        let record = self.identity.record();
        let mut reply = HelloReply {
            seat: record.seat,
            uuid: record.uuid.clone(),
            node_id: self.identity.node_id(),
            pristine: !self.identity.has_past(),
            cluster_id: self.identity.cluster_id().as_ref().clone(),
            feature_level: record.feature_level,
            client_address: record.client_address.clone(),
            testimony: Some(self.identity.acknowledged().testimony()),
            learner: self.identity.is_learner,
            admits_learners: true,
            ..HelloReply::default()
        };
        if !reply.cluster_id.is_empty()
            && reply.cluster_id == asker.cluster_id
            && self.identity.hear(&asker.uuid, asker.testimony.as_ref())
        {
            self.remember_run().await;
        }
        let running = self.running.borrow().clone();
        if let Some(Running { consensus, .. }) = running {
            let initialized = consensus.is_initialized().await;
            reply.pristine &= !initialized.map_err(|e| refused(&ReceiveError::Stopped(e)))?;
            reply.leader_id = consensus.leading().leader.unwrap_or(0);
            let leader = consensus.peer_address(reply.leader_id);
            reply.leader_peer_address = leader.unwrap_or_default();
            let members = consensus.members();
            reply.knows_you = members.by_uuid(&asker.uuid).is_some();
            reply.role = members.role(&record.uuid).into();
            reply.cluster_feature_level = consensus.applied().feature_level();
            reply.feature_level = records::own(&consensus).feature_level;
            reply.removed_you = self.has_removed(&consensus, &asker);
        }
        Ok(Response::new(reply))
    }

    type AppendStream = Replies<AppendReply>;

    async fn append(
        &self,
        request: Request<Streaming<AppendRequest>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let consensus = self.taking_part()?.consensus;
        let identity = Arc::clone(&self.identity);
        let meant = consensus.clone();
        let requests = request.into_inner();
        let (requests, ended) = while_meant(identity, meant, requests, Sender::Anyone, |m| {
            m.header.as_ref()
        });
        let replies = consensus
            .peer_requests()
            .append_stream(requests)
            .map(|r| r.map_err(|e| refused(&e)));
        Ok(Response::new(until_ended(replies, ended)))
    }

    async fn heartbeat(
        &self,
        request: Request<AppendRequest>,
    ) -> Result<Response<AppendReply>, Status> {
        let request = request.into_inner();
        let consensus = self.takes_part(request.header.as_ref())?;
        consensus
            .peer_requests()
            .append(request)
            .await
            .map(Response::new)
            .map_err(|e| refused(&e))
    }

    async fn vote(&self, request: Request<VoteRequest>) -> Result<Response<VoteReply>, Status> {
        let request = request.into_inner();
        let consensus = self.takes_part(request.header.as_ref())?;
        consensus
            .peer_requests()
            .vote(request)
            .await
            .map(Response::new)
            .map_err(|e| refused(&e))
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<SnapshotPart>>,
    ) -> Result<Response<SnapshotReply>, Status> {
        let running = self.taking_part()?;
        let identity = Arc::clone(&self.identity);
        let consensus = running.consensus.clone();
        let meant =
            move |header: Option<&PeerHeader>| check(&identity, &consensus, header, Sender::Anyone);
        let received = snapshot_intake::receive(&running.snapshots, request.into_inner(), meant);
        let (vote, snapshot) = received.await?;
        let requests = running.consensus.peer_requests();
        let installed = requests.install(vote, snapshot).await;
        installed.map(Response::new).map_err(|e| refused(&e))
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferRequest>,
    ) -> Result<Response<TransferReply>, Status> {
        let request = request.into_inner();
        let consensus = self.takes_part(request.header.as_ref())?;
        consensus
            .peer_requests()
            .transfer(request)
            .await
            .map(Response::new)
            .map_err(|e| refused(&e))
    }

    type ForwardStream = Replies<ForwardReply>;

    async fn forward(
        &self,
        request: Request<Streaming<ForwardBatch>>,
    ) -> Result<Response<Self::ForwardStream>, Status> {
        let Running {
            proposer,
            consensus,
            audit,
            vault,
            ..
        } = self.running()?;
        let executor = Executor {
            proposer,
            audit,
            vault,
        };
        let peer = audited::peer(&request);
        let identity = Arc::clone(&self.identity);
        let batches = request.into_inner();
        let (batches, ended) = while_meant(identity, consensus, batches, Sender::Member, |m| {
            m.header.as_ref()
        });
        let (replies, outgoing) = mpsc::channel(FORWARD_BATCHES_MAX);
        tokio::spawn(async move {
            let out = replies.clone();
            let executed = batches.for_each_concurrent(FORWARDED_MESSAGES_MAX, move |batch| {
                let executing = Executing::begin(executor.clone(), peer, batch);
                executing.answer(out.clone())
            });
            tokio::select! {
                () = executed => {}
                // No caller waits for the answers any more; what was proposed goes on.
                () = replies.closed() => {}
            }
        });
        Ok(Response::new(until_ended(
            ReceiverStream::new(outgoing),
            ended,
        )))
    }

    async fn read_index(
        &self,
        request: Request<ReadIndexRequest>,
    ) -> Result<Response<ReadIndexReply>, Status> {
        let running = self.checked(request.into_inner().header.as_ref(), Sender::Member)?;
        let leading = running.consensus.leading();
        let leader_id = leading.leader.unwrap_or(0);
        let index = if leading.here {
            running.consensus.read_index().await
        } else {
            None
        };
        let Some(index) = index else {
            return Ok(Response::new(ReadIndexReply {
                leader_id,
                ..ReadIndexReply::default()
            }));
        };
        let clock_ms = running.consensus.applied().progress().clock_ms;
        let stamp_ms = running.stamper.stamp(leading.term, clock_ms);
        Ok(Response::new(ReadIndexReply {
            leading: true,
            index,
            stamp_ms,
            leader_id,
        }))
    }

    async fn data_keys(
        &self,
        request: Request<DataKeysRequest>,
    ) -> Result<Response<DataKeysReply>, Status> {
        let running = self.checked(request.into_inner().header.as_ref(), Sender::Member)?;
        let ids = running.vault.key_ids();
        Ok(Response::new(DataKeysReply {
            key_ids: ids.iter().map(|id| id.bytes().to_vec().into()).collect(),
        }))
    }

    async fn status(
        &self,
        request: Request<PeerStatusRequest>,
    ) -> Result<Response<PeerStatusReply>, Status> {
        let running = self.checked(request.into_inner().header.as_ref(), Sender::Member)?;
        let status = Some(running.services.status());
        Ok(Response::new(PeerStatusReply { status }))
    }

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinReply>, Status> {
        let mut asker = request.into_inner();
        let running = self.running()?;
        let node = asker.node.take().ok_or_else(|| {
            status::status(
                tonic::Code::InvalidArgument,
                Reason::BadRequest,
                "join without a node",
            )
        })?;
        self.check_cluster(&asker.cluster_id)?;
        let result = match seats::join(&running, &self.identity, &asker, node).await {
            Ok(joined) => join_reply::Result::Joined(joined),
            Err(seats::JoinError::Membership(MembershipError::NotLeading)) => {
                let leader = running.consensus.leading().leader.unwrap_or(0);
                let address = running.consensus.peer_address(leader);
                join_reply::Result::LeaderPeerAddress(address.unwrap_or_default())
            }
            Err(error) => join_reply::Result::Refused(error.to_string()),
        };
        Ok(Response::new(JoinReply {
            result: Some(result),
        }))
    }

    async fn update_record(
        &self,
        request: Request<UpdateRecordRequest>,
    ) -> Result<Response<UpdateRecordReply>, Status> {
        let UpdateRecordRequest { header, node } = request.into_inner();
        let consensus = self.checked(header.as_ref(), Sender::Member)?.consensus;
        let id = header.map_or(0, |header| header.from);
        let recorded = seats::record(consensus, id, node.unwrap_or_default()).await;
        let refused = recorded.err().map(|error| error.to_string());
        Ok(Response::new(UpdateRecordReply {
            refused: refused.unwrap_or_default(),
        }))
    }
}
