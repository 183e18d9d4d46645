//! Consensus alone: three nodes of openraft in one thread, with their logs in memory, no network, and nothing to apply.
//!
//! Commands reach the leader as in a node of Helve: from a queue, in batches.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt, io,
    ops::{Bound, RangeBounds},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    future::{BoxFuture, try_join_all},
    stream::{self, BoxStream},
};
use hdrhistogram::Histogram;
use helve_node::{
    config::ConsensusSettings,
    limits::{PROPOSE_BATCH_COMMANDS_MAX, PROPOSE_BATCHES_MAX},
};
use openraft::{
    EntryPayload, LogState, OptionalSend, RaftLogReader, SnapshotPolicy, alias,
    errors::{RPCError, ReplicationClosed, StreamingError, Unreachable},
    network::{RPCOption, RaftNetworkFactory, RaftNetworkV2},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
        VoteRequest, VoteResponse,
    },
    storage::{EntryResponder, IOFlushed, RaftLogStorage, RaftSnapshotBuilder, RaftStateMachine},
};
use tokio::sync::{mpsc, oneshot};

use super::CALLERS;

const NODES: [u64; 3] = [1, 2, 3];
/// About a mint of 256 bytes.
const COMMAND_BYTES: usize = 300;
const READY_WITHIN: Duration = Duration::from_secs(10);

openraft::declare_raft_types!(
    TypeConfig:
        D = Command,
        R = u64,
        NodeId = u64,
        Node = (),
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

/// The nodes share its bytes: there is nothing between them that would copy them.
type Command = Arc<str>;
type Raft = openraft::Raft<TypeConfig, Counter>;
type LogId = alias::LogIdOf<TypeConfig>;
type Vote = alias::VoteOf<TypeConfig>;
type Entry = alias::EntryOf<TypeConfig>;
type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;
type Snapshot = alias::SnapshotOf<TypeConfig, u64>;
type Reply<T> = Result<T, RPCError<TypeConfig>>;

/// Who waits for how many were applied, its own among them.
type Queued = (Command, oneshot::Sender<u64>);

/// The nodes have a thread of their own, with a runtime of their own, as consensus has in a node.
pub(super) async fn proposals(time: Duration) -> Result<Histogram<u64>> {
    let (queue, queued) = mpsc::channel(CALLERS);
    let nodes = std::thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build()?.block_on(lead(queued))
    });
    let measured = measure(queue, time).await;
    let ended = tokio::task::spawn_blocking(move || nodes.join()).await?;
    // If they failed, that is why nothing could be measured.
    ended.map_err(|_| anyhow::anyhow!("the nodes panicked"))??;
    measured
}

async fn measure(queue: mpsc::Sender<Queued>, time: Duration) -> Result<Histogram<u64>> {
    // The first one waits until there is a leader.
    propose(&queue).await?;
    let end = Instant::now() + time;
    let runs = (0..CALLERS).map(async |_| {
        let mut latencies_us = Histogram::<u64>::new(3)?;
        while Instant::now() < end {
            let begun = Instant::now();
            propose(&queue).await?;
            latencies_us.record(u64::try_from(begun.elapsed().as_micros())?)?;
        }
        anyhow::Ok(latencies_us)
    });
    let mut all = Histogram::<u64>::new(3)?;
    for one in try_join_all(runs).await? {
        all.add(one)?;
    }
    let counted = propose(&queue).await?;
    let answered = all.len() + 2;
    ensure!(
        counted == answered,
        "answered {answered}, applied {counted}"
    );
    Ok(all)
}

async fn propose(queue: &mpsc::Sender<Queued>) -> Result<u64> {
    let (caller, answer) = oneshot::channel();
    let command = "c".repeat(COMMAND_BYTES).into();
    let sent = queue.send((command, caller)).await;
    sent.ok().context("consensus has ended")?;
    Ok(answer.await?)
}

/// Runs the nodes until no writer can queue anything any more.
async fn lead(queued: mpsc::Receiver<Queued>) -> Result<()> {
    let config = config()?;
    let peers = Peers::default();
    let mut nodes = BTreeMap::new();
    for id in NODES {
        let (log, counter) = (LogStore::default(), Counter::default());
        let node = Raft::new(id, Arc::clone(&config), peers.clone(), log, counter).await?;
        nodes.insert(id, node);
    }
    let leader = nodes[&NODES[0]].clone();
    peers.0.get_or_init(|| nodes.clone());
    leader.initialize(BTreeSet::from(NODES)).await?;
    // Metrics name it as the leader even before it is elected, but a quorum answers it only then.
    let elected = leader.wait(Some(READY_WITHIN));
    elected.leader_with_quorum_acked(None, "election").await?;
    let answered = answer_all(&leader, queued).await;
    for node in nodes.values() {
        node.shutdown().await?;
    }
    answered
}

/// Timed and bounded as in a node of Helve. But the node that initialises the cluster leads it to the end.
fn config() -> Result<Arc<openraft::Config>> {
    let helve = ConsensusSettings::default();
    let config = openraft::Config {
        heartbeat_interval: helve.heartbeat_ms,
        heartbeat_min_interval: Some(helve.heartbeat_ms / 2),
        election_timeout_min: helve.election_ms_min,
        election_timeout_max: helve.election_ms_max,
        max_payload_entries: 1024,
        replication_lag_threshold: helve.snapshot_entries.max(helve.log_keep_entries) * 2,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(helve.snapshot_entries),
        max_in_snapshot_log_to_keep: helve.log_keep_entries,
        purge_batch_size: helve.log_keep_entries / 5,
        enable_elect: false,
        ..openraft::Config::default()
    };
    Ok(Arc::new(config.validate()?))
}

/// Takes what is queued, without lingering, in a few batches at a time.
async fn answer_all(leader: &Raft, queued: mpsc::Receiver<Queued>) -> Result<()> {
    let most = PROPOSE_BATCH_COMMANDS_MAX;
    let batches = stream::unfold(queued, async |mut queued| {
        let mut batch = Vec::with_capacity(most);
        let taken = queued.recv_many(&mut batch, most).await;
        (taken > 0).then_some((Ok(batch), queued))
    });
    batches
        .try_for_each_concurrent(PROPOSE_BATCHES_MAX, |batch| answer(leader, batch))
        .await
}

async fn answer(leader: &Raft, batch: Vec<Queued>) -> Result<()> {
    let (commands, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let mut answers = leader.client_write_many(commands).await?;
    for caller in callers {
        let answer = answers.next().await.context("each is answered")???;
        // A caller that has failed wants no answer.
        let _ = caller.send(answer.response);
    }
    Ok(())
}

/// The log of one node. Clones share it.
#[derive(Debug, Clone, Default)]
struct LogStore(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<Entry>,
    purged: Option<LogId>,
    vote: Option<Vote>,
}

impl LogStore {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// The place of the entry of this index.
    fn position(&self, index: u64) -> usize {
        self.entries
            .partition_point(|entry| entry.log_id.index < index)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + fmt::Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let log = self.log();
        let start = match range.start_bound() {
            Bound::Included(start) => log.position(*start),
            Bound::Excluded(start) => log.position(start.saturating_add(1)),
            Bound::Unbounded => 0,
        };
        let from = log.entries.range(start..);
        let within = from.take_while(|entry| range.contains(&entry.log_id.index));
        Ok(within.cloned().collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.log().vote)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let log = self.log();
        let last = log.entries.back().map(|entry| entry.log_id);
        Ok(LogState {
            last_purged_log_id: log.purged,
            last_log_id: last.or(log.purged),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.log().vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.log().entries.extend(entries);
        callback.io_completed(Ok(()));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let mut log = self.log();
        let end = log.position(last.map_or(0, |last| last.index + 1));
        log.entries.truncate(end);
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let mut log = self.log();
        let end = log.position(upto.index + 1);
        log.entries.drain(..end);
        log.purged = log.purged.max(Some(upto));
        Ok(())
    }
}

/// What is applied is counted, so that it is known that all of it was, and once.
#[derive(Debug, Clone, Default)]
struct Counter {
    counted: u64,
    last: Option<LogId>,
    membership: StoredMembership,
}

impl RaftSnapshotBuilder<TypeConfig> for Counter {
    type SnapshotData = u64;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let meta = SnapshotMeta {
            last_log_id: self.last,
            last_membership: self.membership.clone(),
        };
        let snapshot = self.counted;
        Ok(Snapshot { meta, snapshot })
    }
}

impl RaftStateMachine<TypeConfig> for Counter {
    type SnapshotData = u64;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            self.last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(_) => self.counted += 1,
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(self.last, membership);
                }
            }
            if let Some(responder) = responder {
                responder.send(self.counted);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, counted: u64) -> io::Result<()> {
        self.counted = counted;
        self.last = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let snapshot = self.build_snapshot().await?;
        Ok(self.last.map(|_| snapshot))
    }
}

/// All nodes, once they are there: they send nothing before the cluster is initialised.
#[derive(Clone, Default)]
struct Peers(Arc<OnceLock<BTreeMap<u64, Raft>>>);

impl RaftNetworkFactory<TypeConfig> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, (): &()) -> Peer {
        let nodes = self.0.get().expect("all nodes are there by now");
        Peer(nodes[&target].clone())
    }
}

/// Messages to a node are calls.
struct Peer(Raft);

fn reached<T>(reply: Result<T, impl std::error::Error + 'static>) -> Reply<T> {
    reply.map_err(|e| RPCError::Unreachable(Unreachable::new(&e)))
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = u64;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Reply<AppendEntriesResponse<TypeConfig>> {
        reached(self.0.append_entries(rpc).await)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Reply<BoxStream<'s, Reply<StreamAppendResult<TypeConfig>>>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        let replies = self.0.stream_append(input).map(reached);
        Box::pin(async { Ok(replies.boxed()) })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Reply<VoteResponse<TypeConfig>> {
        reached(self.0.vote(rpc).await)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let reply = self.0.install_full_snapshot(vote, snapshot).await;
        Ok(reply.map_err(|e| Unreachable::new(&e))?)
    }
}
