//! Consensus messages to peers: replication, heartbeats and snapshots each on a channel of their own.

mod answers;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, future::ready, stream};
use helve_proto::peer::v1::{PeerHeader, VoteReply, peer_service_client::PeerServiceClient};
use openraft::{
    OptionalSend,
    alias::{SnapshotOf, VoteOf},
    async_runtime::watch::WatchReceiver as _,
    base::{BoxFuture, BoxStream},
    errors::{RPCError, ReplicationClosed, StreamingError, Unreachable},
    network::{RPCOption, RaftNetworkFactory, RaftNetworkV2, stream_append_sequential},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
        TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
    },
};
use tonic::{Request, Response, Status, transport::Channel};

use super::{
    codec, snapshot,
    state_machine::Raft,
    types::{NodeInfo, TypeConfig},
};
use crate::{
    identity::{Identity, acknowledged::Flushed, peer::Peer},
    metrics::Observed,
    peer_channel::address_book::AddressBook,
    stamp::Stamper,
    storage::checkpoint::SnapshotDir,
};

type Error = RPCError<TypeConfig>;

/// Keeps the book to the membership, until consensus stops.
pub(super) async fn keep_addresses(raft: Raft, book: Arc<AddressBook>) {
    let mut metrics = raft.server_metrics();
    loop {
        {
            let now = metrics.borrow_watched();
            let nodes = now.membership_config.nodes();
            book.note_members(nodes.map(|(id, node)| (*id, node.0.clone())));
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

/// Makes the connections to peers, as the membership names them.
#[derive(Debug, Clone)]
pub(super) struct Network {
    identity: Arc<Identity>,
    book: Arc<AddressBook>,
    stamper: Arc<Stamper>,
    flushed: Flushed,
    observed: Observed,
}

impl Network {
    pub(super) fn new(
        identity: Arc<Identity>,
        book: Arc<AddressBook>,
        stamper: Arc<Stamper>,
        flushed: Flushed,
        observed: Observed,
    ) -> Self {
        Self {
            identity,
            book,
            stamper,
            flushed,
            observed,
        }
    }

    fn connect(&self, target: u64, node: &NodeInfo, purpose: Purpose) -> Connection {
        Connection {
            client: self.identity.dialler().client(&node.0.peer_address),
            address: node.0.peer_address.clone(),
            book: Arc::clone(&self.book),
            peer: Peer {
                identity: Arc::clone(&self.identity),
                target,
                uuid: node.0.uuid.clone(),
                flushed: self.flushed.clone(),
            },
            stamper: Arc::clone(&self.stamper),
            observed: self.observed.clone(),
            purpose,
        }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &NodeInfo) -> Connection {
        self.connect(target, node, Purpose::Replication)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &NodeInfo) -> Connection {
        self.connect(target, node, Purpose::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &NodeInfo) -> Connection {
        self.connect(target, node, Purpose::Snapshot)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Replication,
    Heartbeat,
    Snapshot,
}

/// A connection to one peer for one purpose.
#[derive(Debug)]
pub(super) struct Connection {
    client: PeerServiceClient<Channel>,
    /// Where `client` connects to.
    address: String,
    book: Arc<AddressBook>,
    peer: Peer,
    stamper: Arc<Stamper>,
    observed: Observed,
    purpose: Purpose,
}

impl Connection {
    fn header(&self) -> PeerHeader {
        self.peer.identity.header(self.peer.target, &self.peer.uuid)
    }

    /// Notes what a voter's answer to a request of then says of time.
    fn vouched(&self, asked: Instant, reply: &VoteReply) {
        self.stamper.vouched(reply.time_ms);
        self.stamper
            .heard_wall(self.peer.target, asked, reply.wall_ms);
    }

    /// What the peer answered, if it took the request as one of its cluster.
    fn answered<T>(&self, reply: Result<Response<T>, Status>) -> Result<T, Error> {
        let reply = self.peer.answered(reply);
        Ok(reply.map_err(|e| unreachable(&e))?.into_inner())
    }

    fn check_own_part(&self) -> Result<(), Error> {
        self.peer.check_own_part().map_err(|e| unreachable(&e))
    }

    /// A client of the member where it is now.
    fn client(&mut self) -> &mut PeerServiceClient<Channel> {
        if let Some(address) = self.book.address(self.peer.target, &self.peer.uuid)
            && address != self.address
        {
            self.client = self.peer.identity.dialler().client(&address);
            self.address = address;
        }
        &mut self.client
    }
}

fn unreachable(status: &Status) -> Error {
    RPCError::Unreachable(Unreachable::new(status))
}

fn malformed(error: &codec::CodecError) -> Error {
    RPCError::Unreachable(Unreachable::new(error))
}

fn within<T>(message: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

impl RaftNetworkV2<TypeConfig> for Connection {
    type SnapshotData = SnapshotDir;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, Error> {
        let term = rpc.vote.leader_id.term;
        let matching = rpc.prev_log_id.map(|id| id.index);
        let mut request = codec::append_to_proto(self.header(), rpc);
        request.time_ms = self.stamper.estimate().unwrap_or(0);
        request.agreed_ms = self.stamper.agreed_ms().unwrap_or(0);
        request.testimony = Some(self.peer.testimony(term).map_err(|e| unreachable(&e))?);
        let asked = Instant::now();
        let reply = self
            .client()
            .heartbeat(within(request, option.hard_ttl()))
            .await;
        let reply = self.answered(reply)?;
        self.observed
            .peer_answered(self.peer.target, asked.elapsed());
        self.stamper
            .heard_wall(self.peer.target, asked, reply.wall_ms);
        let held = self.peer.check_holds(term, matching, &reply);
        held.map_err(|e| unreachable(&e))?;
        codec::append_reply_from_proto(reply).map_err(|e| malformed(&e))
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, Error>>, Error>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        if self.purpose == Purpose::Heartbeat {
            return stream_append_sequential(self, input, option);
        }
        Box::pin(async move {
            let (mut input, ledger) = answers::paired(input);
            // The pause behind a failure is in the stream. A connection that is refused asks for no request, so without this wait
            // the next one would be tried at once, for as long as the peer is away.
            let Some(first) = input.next().await else {
                return Ok(Box::pin(stream::empty()) as BoxStream<'s, _>);
            };
            let term = first.vote.leader_id.term;
            let input = stream::once(ready(first)).chain(input);
            let telling = self.peer.telling(term).map_err(|e| unreachable(&e));
            let (header, mut telling) = (self.header(), telling?);
            let requests = input.map(move |rpc| {
                let mut request = codec::append_to_proto(header.clone(), rpc);
                request.testimony = telling.next();
                request
            });
            let replies = tokio::time::timeout(option.hard_ttl(), self.client().append(requests))
                .await
                .map_err(|_| unreachable(&Status::deadline_exceeded("no answer to append")))?
                .map_err(|status| unreachable(&status))?
                .into_inner();
            let peer = self.peer.clone();
            let replies = replies.map(move |reply| {
                let reply = peer.answered(reply).and_then(|reply| {
                    peer.acknowledges(term, &reply)?;
                    Ok(reply)
                });
                let reply = reply.map_err(|e| unreachable(&e))?;
                codec::stream_reply_from_proto(reply).map_err(|e| malformed(&e))
            });
            Ok(Box::pin(ledger.settle(replies)) as BoxStream<'s, _>)
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        self.check_own_part()?;
        let term = rpc.vote.leader_id.term;
        let request = codec::vote_request_to_proto(self.header(), rpc, codec::Ballot::Vote);
        let asked = Instant::now();
        let reply = self.client().vote(within(request, option.hard_ttl())).await;
        let reply = self.answered(reply)?;
        self.vouched(asked, &reply);
        self.peer.votes(term, &reply);
        codec::vote_reply_from_proto(reply).map_err(|e| malformed(&e))
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        self.check_own_part()?;
        let request = codec::vote_request_to_proto(self.header(), rpc, codec::Ballot::PreVote);
        let asked = Instant::now();
        let reply = self.client().vote(within(request, option.hard_ttl())).await;
        let reply = self.answered(reply)?;
        self.vouched(asked, &reply);
        self.peer.accepted();
        codec::vote_reply_from_proto(reply).map_err(|e| malformed(&e))
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<TypeConfig>,
        snapshot: SnapshotOf<TypeConfig, SnapshotDir>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let may_send = self.peer.check_own_part();
        may_send.map_err(|e| Unreachable::new(&e))?;
        let parts = snapshot::parts(self.header(), &vote, snapshot.snapshot);
        let sent = self.client().install_snapshot(parts);
        let reply = tokio::select! {
            closed = cancel => return Err(StreamingError::Closed(closed)),
            reply = sent => reply,
        };
        let reply = reply
            .map_err(|status| Unreachable::new(&status))?
            .into_inner();
        let vote = codec::required_vote(reply.vote).map_err(|e| Unreachable::new(&e))?;
        Ok(SnapshotResponse::new(vote))
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, Error> {
        self.check_own_part()?;
        let request = codec::transfer_to_proto(self.header(), &rpc);
        let reply = self
            .client()
            .transfer_leader(within(request, option.hard_ttl()))
            .await;
        let reply = self.answered(reply)?;
        self.peer.accepted();
        Ok(codec::transfer_reply_from_proto(&reply, &rpc))
    }
}

#[cfg(test)]
mod tests;
