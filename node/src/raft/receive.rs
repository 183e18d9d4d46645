//! Consensus messages from peers, in the contract's types.

use futures::{Stream, StreamExt};
use helve_proto::peer::v1::{
    AppendReply, AppendRequest, SnapshotReply, TransferReply, TransferRequest, Vote, VoteReply,
    VoteRequest,
};
use openraft::alias::SnapshotOf;

use super::{
    Consensus, Stopped,
    codec::{self, Ballot, CodecError},
    types::TypeConfig,
};
use crate::{stamp, storage::checkpoint::SnapshotDir};

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
    ReceiveError::Stopped(Stopped(error.to_string()))
}

impl Consensus {
    /// Replication: requests answered in order, until one cannot be.
    pub fn append_stream(
        &self,
        requests: impl Stream<Item = AppendRequest> + Send + 'static,
    ) -> impl Stream<Item = Result<AppendReply, ReceiveError>> + Send + 'static {
        // A malformed message ends the stream: the leader then starts anew from what was acknowledged.
        let requests = requests
            .map(codec::append_from_proto)
            .scan((), |(), decoded| {
                if let Err(e) = &decoded {
                    tracing::error!(error = %e, "a peer's entries cannot be understood");
                }
                std::future::ready(decoded.ok())
            });
        let replies = self.raft.stream_append(requests);
        replies.map(|reply| reply.map(codec::stream_reply_to_proto).map_err(stopped))
    }

    /// One append, usually an empty one.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn append(&self, request: AppendRequest) -> Result<AppendReply, ReceiveError> {
        self.stamper.vouched(request.time_ms);
        self.stamper.note_agreed(request.agreed_ms);
        let request = codec::append_from_proto(request)?;
        let reply = self.raft.append_entries(request).await.map_err(stopped)?;
        let mut reply = codec::append_reply_to_proto(reply);
        reply.wall_ms = stamp::wall_ms();
        Ok(reply)
    }

    /// A vote, or a question how a vote would go.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub async fn vote(&self, request: VoteRequest) -> Result<VoteReply, ReceiveError> {
        let (request, ballot) = codec::vote_request_from_proto(request)?;
        let reply = match ballot {
            Ballot::Vote => self.raft.vote(request).await,
            Ballot::PreVote => self.raft.pre_vote(request).await,
        };
        let mut reply = codec::vote_reply_to_proto(reply.map_err(stopped)?);
        reply.time_ms = self.stamper.estimate().unwrap_or(0);
        reply.wall_ms = stamp::wall_ms();
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
