//! Consensus messages from peers, in the contract's types.

use std::{future::Future, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use helve_proto::peer::v1::{
    AppendReply, AppendRequest, SnapshotReply, TransferReply, TransferRequest, Vote, VoteReply,
    VoteRequest,
};
use openraft::{alias::SnapshotOf, raft::AppendEntriesResponse};
use tokio::time::timeout;
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use super::{
    Stopped,
    codec::{self, Ballot, CodecError},
    state_machine::Raft,
    types::TypeConfig,
};
use crate::{
    identity::{Identity, peer_problems::Rival},
    stamp::{self, Stamper},
    storage::checkpoint::SnapshotDir,
};

/// How long peers' messages may take when the node stops.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Why a peer's message was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// It could not be understood.
    #[error(transparent)]
    Malformed(#[from] CodecError),
    /// Consensus has stopped here.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

fn stopped(error: impl std::fmt::Display) -> ReceiveError {
    ReceiveError::Stopped(Stopped::by(error))
}

/// The messages of peers that consensus has, or will have.
#[derive(Debug, Clone, Default)]
struct Receiving {
    end: CancellationToken,
    open: TaskTracker,
}

impl Receiving {
    /// Counts one message until the token is dropped.
    fn one(&self) -> Result<TaskTrackerToken, Stopped> {
        if self.end.is_cancelled() {
            return Err(Stopped::meanwhile());
        }
        Ok(self.open.token())
    }

    /// These messages, until there are to be no more.
    fn until_end<T>(
        &self,
        messages: impl Stream<Item = T> + Send + 'static,
    ) -> impl Stream<Item = T> + Send + 'static {
        let token = self.open.token();
        let messages = messages.take_until(self.ended());
        messages.inspect(move |_| {
            // Dropped with the stream.
            let _open = &token;
        })
    }

    fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.end.clone().cancelled_owned()
    }

    /// Lets no more messages in, and waits until consensus has those that were.
    async fn end(&self) {
        self.end.cancel();
        self.open.close();
        if timeout(END_LIMIT, self.open.wait()).await.is_err() {
            tracing::debug!("consensus stops while peers still wait for answers");
        }
    }
}

fn hear(identity: &Identity, request: &AppendRequest) {
    if let Some(header) = &request.header {
        identity.hear(&header.from_uuid, request.testimony.as_ref());
    }
}

/// Hands consensus what peers ask. Cheap to clone.
#[derive(Clone)]
pub struct PeerRequests {
    raft: Raft,
    identity: Arc<Identity>,
    stamper: Arc<Stamper>,
    receiving: Receiving,
}

impl PeerRequests {
    pub(super) fn new(raft: Raft, identity: Arc<Identity>, stamper: Arc<Stamper>) -> Self {
        Self {
            raft,
            identity,
            stamper,
            receiving: Receiving::default(),
        }
    }

    /// Lets no more requests in, and waits until consensus has those that were.
    pub(super) async fn end(&self) {
        self.receiving.end().await;
    }

    /// Replication: requests answered in order, until one cannot be.
    pub fn append_stream(
        &self,
        requests: impl Stream<Item = AppendRequest> + Send + 'static,
    ) -> impl Stream<Item = Result<AppendReply, ReceiveError>> + Send + 'static {
        // A malformed message ends the stream: the leader then starts again from what was
        // acknowledged.
        let identity = Arc::clone(&self.identity);
        let requests = self
            .receiving
            .until_end(requests)
            .inspect(move |request| hear(&identity, request))
            .map(codec::append_from_proto)
            .scan((), |(), decoded| {
                if let Err(e) = &decoded {
                    tracing::error!(error = %e, "a peer's entries cannot be understood");
                }
                std::future::ready(decoded.ok())
            });
        let replies = self.raft.stream_append(requests);
        let run = self.identity.acknowledged().run().to_proto();
        let replies = replies.take_until(self.receiving.ended());
        replies.map(move |reply| {
            let mut reply = codec::stream_reply_to_proto(reply.map_err(stopped)?);
            reply.run = Some(run);
            Ok(reply)
        })
    }

    /// One append, usually an empty one.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn append(&self, request: AppendRequest) -> Result<AppendReply, ReceiveError> {
        self.stamper.vouched(request.time_ms);
        self.stamper.note_agreed(request.agreed_ms);
        let _received = self.receiving.one()?;
        hear(&self.identity, &request);
        let request = codec::append_from_proto(request)?;
        let vote = request.vote;
        let reply = self.raft.append_entries(request).await.map_err(stopped)?;
        if let AppendEntriesResponse::HigherVote(own) = &reply
            && let Some(rival) = Rival::of(&codec::vote_to_proto(own), &codec::vote_to_proto(&vote))
        {
            self.identity.peer_problems().note_rival(rival);
        }
        let mut reply = codec::append_reply_to_proto(reply);
        reply.wall_ms = stamp::wall_ms();
        reply.run = Some(self.identity.acknowledged().run().to_proto());
        Ok(reply)
    }

    /// A vote, or a question how a vote would go.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn vote(&self, request: VoteRequest) -> Result<VoteReply, ReceiveError> {
        let _received = self.receiving.one()?;
        let (request, ballot) = codec::vote_request_from_proto(request)?;
        let reply = match ballot {
            Ballot::Vote => self.raft.vote(request).await,
            Ballot::PreVote => self.raft.pre_vote(request).await,
        };
        let mut reply = codec::vote_reply_to_proto(reply.map_err(stopped)?);
        reply.time_ms = self.stamper.estimate().unwrap_or(0);
        reply.wall_ms = stamp::wall_ms();
        reply.run = Some(self.identity.acknowledged().run().to_proto());
        Ok(reply)
    }

    /// The leader hands over its office.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn transfer(&self, request: TransferRequest) -> Result<TransferReply, ReceiveError> {
        let request = codec::transfer_from_proto(request)?;
        let reply = self
            .raft
            .handle_transfer_leader(request)
            .await
            .map_err(stopped)?;
        Ok(TransferReply {
            accepted: reply.is_ok(),
        })
    }

    /// A snapshot that was received whole.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn install(
        &self,
        vote: Option<Vote>,
        snapshot: SnapshotDir,
    ) -> Result<SnapshotReply, ReceiveError> {
        let vote = codec::required_vote(vote)?;
        let meta = codec::snapshot_meta(snapshot.manifest())?;
        let snapshot = SnapshotOf::<TypeConfig, SnapshotDir> { meta, snapshot };
        let reply = self
            .raft
            .install_full_snapshot(vote, snapshot)
            .await
            .map_err(stopped)?;
        Ok(SnapshotReply {
            vote: Some(codec::vote_to_proto(&reply.vote)),
        })
    }
}
