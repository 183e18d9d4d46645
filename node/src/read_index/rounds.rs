//! Rounds of ReadIndex: one question to the leader for all reads that wait, and one view for all their queries.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use helve_machine::{Fault, query::Read};
use helve_proto::peer::v1::{ReadIndexReply, ReadIndexRequest};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tonic::{Response, Status};
use tonic_types::StatusExt as _;

use super::{
    Core, ReadError, ReadView, Ticket, ask,
    disk_reads::Extent,
    question::{Asked, Question, Waiter, Waiting},
};
use crate::{
    bounds::{self, Shared},
    fair_queue::FairQueue,
    keyed_places::SharedPlaces,
    leader_contact::{Declined, Lacking, LeaderContact},
    limits::{
        READ_INDEX_LIMIT, READ_QUEUE_MAX, READ_ROUND_LAG_MAX, READ_ROUNDS_MAX, READ_TURN_QUERIES,
        READ_VIEW_QUERIES_MAX,
    },
    peer_links::PeerLinks,
    raft::Consensus,
    stamp::Stamper,
    storage::state_view::StateView,
    traces,
};

/// Where reads wait for a round.
#[derive(Clone)]
pub(super) struct Rounds {
    queue: mpsc::UnboundedSender<Waiting>,
    places: SharedPlaces,
}

/// Asks the current leader.
pub(super) struct Asker {
    pub(super) consensus: Consensus,
    pub(super) peers: PeerLinks,
    pub(super) stamper: Arc<Stamper>,
    pub(super) contact: Arc<LeaderContact>,
}

impl Rounds {
    /// Rounds, and what carries them out: no read is answered unless that runs, and it ends with
    /// the last reader.
    pub(super) fn new(
        asker: Asker,
        core: Arc<Core>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, waiting) = mpsc::unbounded_channel();
        let running = rounds(Arc::new(asker), core, waiting);
        let places = SharedPlaces::new(READ_QUEUE_MAX);
        (Self { queue, places }, running)
    }

    /// What the next round answers.
    pub(super) async fn next(&self, tenant: &str, deadline: Instant) -> Result<Ticket, ReadError> {
        let (reply, answer) = oneshot::channel();
        let waiter = Box::new((tenant.to_owned(), reply));
        self.wait(waiter, answer, deadline).await
    }

    /// What the next round answers, and the query's result in a view that follows it.
    pub(super) async fn ask<T, Q>(
        &self,
        tenant: &str,
        query: &Arc<Q>,
        deadline: Instant,
    ) -> Result<Asked<T>, ReadError>
    where
        T: Send + 'static,
        Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let waits_for_disk = Arc::<AtomicBool>::default();
        let question = Question::new(
            tenant,
            Arc::downgrade(query),
            reply,
            Arc::clone(&waits_for_disk),
        );
        let asked = self.wait(Box::new(question), answer, deadline).await;
        asked.map_err(|error| {
            if waits_for_disk.load(Ordering::Relaxed) {
                ReadError::Overloaded(bounds::DISK_READS)
            } else {
                error
            }
        })
    }

    /// How many reads wait for a round or its answer, how many may, and how often one was refused.
    pub(super) fn fullness(&self) -> Shared {
        Shared {
            used: self.places.used(),
            limit: READ_QUEUE_MAX,
            refused: self.places.refused(),
        }
    }

    async fn wait<A>(
        &self,
        waiter: Box<dyn Waiter>,
        answer: oneshot::Receiver<A>,
        deadline: Instant,
    ) -> Result<A, ReadError> {
        let _round = traces::part("read index");
        let place = self.places.take(waiter.tenant(), 1);
        let place = place.ok_or(ReadError::Overloaded(bounds::ROUND_READS))?;
        if self.queue.send(Waiting::new(waiter, place)).is_err() {
            return Err(ReadError::Stopping);
        }
        match timeout_at(deadline, answer).await {
            Ok(ticket) => ticket.map_err(|_| ReadError::Stopping),
            Err(_) => Err(ReadError::NoLeader),
        }
    }
}

/// Each round serves all that arrived before it started.
async fn rounds(asker: Arc<Asker>, core: Arc<Core>, mut waiting: mpsc::UnboundedReceiver<Waiting>) {
    let slots = Arc::new(Semaphore::new(READ_ROUNDS_MAX));
    let mut under_way = JoinSet::new();
    let mut arrived = Vec::new();
    loop {
        let slot = Arc::clone(&slots)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        while let Some(ended) = under_way.try_join_next() {
            // Its readers hear that this node is stopping.
            if let Err(error) = ended {
                tracing::error!(%error, "a round of ReadIndex broke");
            }
        }
        if waiting.recv_many(&mut arrived, READ_QUEUE_MAX).await == 0 {
            return;
        }
        let round = std::mem::take(&mut arrived);
        let (asker, core) = (Arc::clone(&asker), Arc::clone(&core));
        under_way.spawn(async move {
            let answered = asker.round(round).await;
            drop(slot);
            if let Some((ticket, round)) = answered {
                core.answer(ticket, round).await;
            }
        });
    }
}

impl Core {
    /// Opens a view for many queries, not one for each: that costs more than most queries. A
    /// waiting read gets only the ticket if the rows lag, since each decides itself how long to
    /// wait for them.
    async fn answer(&self, ticket: Ticket, mut round: Vec<Waiting>) {
        let reached = timeout(
            READ_ROUND_LAG_MAX,
            self.consensus.applied().wait_rows(ticket.index),
        )
        .await;
        if !matches!(reached, Ok(Ok(()))) {
            tell(ticket, round);
            return;
        }
        let contented = round.extract_if(.., |waiter| !waiter.wants_view());
        tell(ticket, contented.collect());
        if round.is_empty() {
            return;
        }
        if round.len() <= READ_VIEW_QUERIES_MAX {
            self.answer_from_disk(ticket, self.answer_from_memory(ticket, round));
            return;
        }
        // However many of one tenant are in the round, those of another are among the first.
        let mut turns = in_turns(round);
        while !turns.is_empty() {
            let next = turns.take(READ_VIEW_QUERIES_MAX, usize::MAX, |_| true);
            self.answer_from_disk(ticket, self.answer_from_memory(ticket, next));
            tokio::task::yield_now().await;
        }
    }

    /// Returns those for whom memory is not enough.
    fn answer_from_memory(&self, ticket: Ticket, round: Vec<Waiting>) -> Vec<Waiting> {
        if !self.hit_rate.is_worth_trying() {
            return round;
        }
        let reads = round.len();
        let beyond = self.state.read_cached(|view| show(view, ticket, round));
        self.hit_rate.note(reads - beyond.len(), reads);
        beyond
    }

    fn answer_from_disk(&self, ticket: Ticket, mut round: Vec<Waiting>) {
        round.iter_mut().for_each(Waiting::goes_to_disk);
        let together = self.disk_reads.reads_together();
        for (tenant, mut reads) in by_tenant(round) {
            while !reads.is_empty() {
                let rest = reads.split_off(reads.len().min(together));
                let extent = Extent::Few(reads.len());
                let job = move |view: &StateView<'_>| {
                    // This view reaches everywhere: each query of it then tries alone, and reports
                    // what is wrong.
                    tell(ticket, show(view, ticket, reads));
                };
                if !self.disk_reads.push(&tenant, extent, Box::new(job)) {
                    // Dropped with the job and the rest, which is how those who wait learn of it.
                    break;
                }
                reads = rest;
            }
        }
    }
}

/// Queries of one round, whose tenants take turns.
fn in_turns(round: Vec<Waiting>) -> FairQueue<String, Waiting> {
    let mut turns = FairQueue::new(READ_TURN_QUERIES);
    for waiter in round {
        let tenant = waiter.tenant().to_owned();
        turns.push(tenant.as_str(), 1, waiter);
    }
    turns
}

/// Queries by their tenants, since each job that waits for the disk is one tenant's.
fn by_tenant(round: Vec<Waiting>) -> HashMap<String, Vec<Waiting>> {
    let mut tenants: HashMap<String, Vec<Waiting>> = HashMap::new();
    for waiter in round {
        match tenants.get_mut(waiter.tenant()) {
            Some(reads) => reads.push(waiter),
            None => drop(tenants.insert(waiter.tenant().to_owned(), vec![waiter])),
        }
    }
    tenants
}

/// Shows a view to those who wait for it, and returns those for whom it does not reach far enough. The others are told when all have
/// seen it: so the answers go to the callers' thread together.
fn show(view: &StateView<'_>, ticket: Ticket, mut waiters: Vec<Waiting>) -> Vec<Waiting> {
    let shown = ask(view, ticket, |view| {
        let beyond = waiters.extract_if(.., |waiter| !waiter.look(view));
        Ok(Read::Answer(beyond.collect()))
    });
    // From a view that cannot even be opened no query has seen anything: each tries alone, and says
    // what is wrong.
    tell(ticket, waiters);
    match shown {
        Ok(Read::Answer(beyond)) => beyond,
        _ => Vec::new(),
    }
}

fn tell(ticket: Ticket, waiters: Vec<Waiting>) {
    waiters.into_iter().for_each(|waiter| waiter.tell(ticket));
}

/// What a leader answered.
struct Answered {
    /// The term in which this node asked.
    term: u64,
    ticket: Ticket,
}

impl Asker {
    /// Asks until a leader answers, or no read waits any more.
    async fn round(&self, mut round: Vec<Waiting>) -> Option<(Ticket, Vec<Waiting>)> {
        let mut pause = Duration::from_millis(2);
        loop {
            let applied = self.consensus.applied().index();
            if let Some(Answered { term, ticket }) = self.ask_leader().await
                && self.holds_all(term, ticket, applied)
            {
                return Some((ticket, round));
            }
            // One read that waits long must not keep those that gave up.
            round.retain(|waiter| !waiter.is_gone());
            if round.is_empty() {
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Whether the leader of this term holds all that was committed, as far as this node can tell, which had applied the log up to
    /// `applied` before it asked. If not, nothing is read in its name.
    fn holds_all(&self, term: u64, ticket: Ticket, applied: u64) -> bool {
        if ticket.index < applied {
            self.contact.note_lacking(Lacking {
                term,
                committed: ticket.index,
                applied,
            });
            return false;
        }
        self.contact.note(term, ticket.index);
        self.contact.lacking().is_none()
    }

    async fn ask_leader(&self) -> Option<Answered> {
        let leading = self.consensus.leading();
        let leader = leading.leader?;
        let term = leading.term;
        if leading.here {
            let Some(index) = self.consensus.read_index().await else {
                self.contact
                    .note_declined(leader, Some(Declined::NoMajority));
                return None;
            };
            let clock_ms = self.consensus.applied().progress().clock_ms;
            let stamp_ms = self.stamper.stamp(term, clock_ms);
            let ticket = Ticket { index, stamp_ms };
            return Some(Answered { term, ticket });
        }
        let (mut client, header) = self.peers.client(leader)?;
        let request = ReadIndexRequest {
            header: Some(header),
        };
        let answer = tokio::select! {
            reply = timeout(READ_INDEX_LIMIT, client.read_index(request)) => reply.ok(),
            // A leader that hangs may never answer; its successor will.
            _ = self.consensus.wait_leading(move |l| l.leader != Some(leader)) => return None,
        };
        let reply = match answer.map(|answer| answer.map(Response::into_inner)) {
            Some(Ok(reply)) if reply.leading => reply,
            other => {
                let declined = other.and_then(|answer| declined(leader, answer));
                self.contact.note_declined(leader, declined);
                return None;
            }
        };
        self.stamper.note(reply.stamp_ms);
        let ticket = Ticket {
            index: reply.index,
            stamp_ms: reply.stamp_ms,
        };
        Some(Answered { term, ticket })
    }
}

/// What an answer of the node with this id says, other than that it leads; `None` if it is no answer of a node.
fn declined(node: u64, answer: Result<ReadIndexReply, Status>) -> Option<Declined> {
    match answer {
        Ok(reply) if reply.leader_id == node => Some(Declined::NoMajority),
        Ok(reply) => Some(Declined::NotLeading(
            Some(reply.leader_id).filter(|id| *id != 0),
        )),
        // Every node says its reason; a transport that fails has none.
        Err(status) => status
            .get_details_error_info()
            .map(|_| Declined::Refused(status.message().to_owned())),
    }
}

#[cfg(test)]
mod tests;
