//! Rounds of ReadIndex: one question to the leader for all reads that wait, and one view for all their queries.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use helve_machine::{Fault, query::Read};
use helve_proto::peer::v1::ReadIndexRequest;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Core, ReadError, ReadView, Ticket, ask,
    disk_reads::Extent,
    question::{Asked, Question, Waiter},
};
use crate::{
    leader_contact::LeaderContact,
    limits::{
        READ_INDEX_LIMIT, READ_QUEUE_MAX, READ_ROUND_LAG_MAX, READ_ROUNDS_MAX,
        READ_VIEW_QUERIES_MAX,
    },
    peer_links::PeerLinks,
    raft::Consensus,
    stamp::Stamper,
    storage::state_view::StateView,
};

type Waiting = Box<dyn Waiter>;

/// Where reads wait for a round.
#[derive(Clone)]
pub(super) struct Rounds(mpsc::Sender<Waiting>);

/// Asks the leader, whoever leads.
pub(super) struct Asker {
    pub(super) consensus: Consensus,
    pub(super) peers: PeerLinks,
    pub(super) stamper: Arc<Stamper>,
    pub(super) contact: Arc<LeaderContact>,
}

impl Rounds {
    /// Rounds, and what carries them out: nobody is answered unless that runs, and it ends with the last reader.
    pub(super) fn new(
        asker: Asker,
        core: Arc<Core>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (waiters, waiting) = mpsc::channel(READ_QUEUE_MAX);
        let running = rounds(Arc::new(asker), core, waiting);
        (Self(waiters), running)
    }

    /// What the next round answers.
    pub(super) async fn next(&self, deadline: Instant) -> Result<Ticket, ReadError> {
        let (reply, answer) = oneshot::channel();
        self.wait(Box::new(reply), answer, deadline).await
    }

    /// What the next round answers, and what the query comes to in a view that follows it.
    pub(super) async fn ask<T, Q>(
        &self,
        query: &Arc<Q>,
        deadline: Instant,
    ) -> Result<Asked<T>, ReadError>
    where
        T: Send + 'static,
        Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let waits_for_disk = Arc::<AtomicBool>::default();
        let question = Question::new(Arc::clone(query), reply, Arc::clone(&waits_for_disk));
        let asked = self.wait(Box::new(question), answer, deadline).await;
        asked.map_err(|error| {
            if waits_for_disk.load(Ordering::Relaxed) {
                ReadError::Overloaded
            } else {
                error
            }
        })
    }

    async fn wait<A>(
        &self,
        waiter: Waiting,
        answer: oneshot::Receiver<A>,
        deadline: Instant,
    ) -> Result<A, ReadError> {
        match self.0.try_send(waiter) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(ReadError::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ReadError::Stopping),
        }
        match timeout_at(deadline, answer).await {
            Ok(ticket) => ticket.map_err(|_| ReadError::Stopping),
            Err(_) => Err(ReadError::NoLeader),
        }
    }
}

/// Each round serves all that arrived before it started.
async fn rounds(asker: Arc<Asker>, core: Arc<Core>, mut waiting: mpsc::Receiver<Waiting>) {
    let slots = Arc::new(Semaphore::new(READ_ROUNDS_MAX));
    let mut under_way = JoinSet::new();
    let mut round = Vec::new();
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
        if waiting.recv_many(&mut round, READ_QUEUE_MAX).await == 0 {
            return;
        }
        let round = std::mem::take(&mut round);
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
    /// Opens a view for many queries, not one for each: that costs more than most queries. Whoever waits is told the ticket alone if
    /// the rows lag, since how long to wait for them is each one's own decision.
    async fn answer(&self, ticket: Ticket, mut round: Vec<Waiting>) {
        let reached = timeout(READ_ROUND_LAG_MAX, self.consensus.wait_rows(ticket.index)).await;
        if !matches!(reached, Ok(Ok(()))) {
            tell(ticket, round);
            return;
        }
        let contented = round.extract_if(.., |waiter| !waiter.wants_view());
        tell(ticket, contented.collect());
        while !round.is_empty() {
            let rest = round.split_off(round.len().min(READ_VIEW_QUERIES_MAX));
            self.answer_from_disk(ticket, self.answer_from_memory(ticket, round));
            round = rest;
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
        round.iter().for_each(|waiter| waiter.goes_to_disk());
        while !round.is_empty() {
            let rest = round.split_off(round.len().min(self.disk_reads.reads_together()));
            let reads = round.len();
            let job = move |view: &StateView<'_>| {
                // This view reaches everywhere: whoever comes back from it tries alone, and says what is wrong.
                tell(ticket, show(view, ticket, round));
            };
            if !self.disk_reads.push(Extent::Few(reads), Box::new(job)) {
                // Dropped with the job and the rest, which is how those who wait learn of it.
                return;
            }
            round = rest;
        }
    }
}

/// Shows a view to those who wait for it, and returns those for whom it does not reach far enough. The others are told when all have
/// seen it: so the answers go to the callers' thread together.
fn show(view: &StateView<'_>, ticket: Ticket, mut waiters: Vec<Waiting>) -> Vec<Waiting> {
    let shown = ask(view, ticket, |view| {
        let beyond = waiters.extract_if(.., |waiter| !waiter.look(view));
        Ok(Read::Answer(beyond.collect()))
    });
    // From a view that cannot even be opened nobody has seen anything: each tries alone, and says what is wrong.
    tell(ticket, waiters);
    match shown {
        Ok(Read::Answer(beyond)) => beyond,
        _ => Vec::new(),
    }
}

fn tell(ticket: Ticket, waiters: Vec<Waiting>) {
    waiters.into_iter().for_each(|waiter| waiter.tell(ticket));
}

impl Asker {
    /// Asks until a leader answers, or nobody waits any more.
    async fn round(&self, round: Vec<Waiting>) -> Option<(Ticket, Vec<Waiting>)> {
        let mut pause = Duration::from_millis(2);
        loop {
            let applied = self.consensus.applied_index();
            match self.ask_leader().await {
                // No leader that holds all that was committed says so: nothing is read in its name.
                Some(ticket) if ticket.index < applied => {
                    self.contact.note_lacking(ticket.index, applied);
                }
                Some(ticket) => {
                    self.contact.note(ticket.index);
                    return Some((ticket, round));
                }
                None => {}
            }
            if round.iter().all(|waiter| waiter.is_gone()) {
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    async fn ask_leader(&self) -> Option<Ticket> {
        let leading = self.consensus.leading();
        let leader = leading.leader?;
        if leading.here {
            let index = self.consensus.read_index().await?;
            let clock_ms = self.consensus.progress().clock_ms;
            return Some(Ticket {
                index,
                stamp_ms: self.stamper.stamp(leading.term, clock_ms),
            });
        }
        let (mut client, header) = self.peers.client(leader)?;
        let request = ReadIndexRequest {
            header: Some(header),
        };
        let reply = tokio::select! {
            reply = timeout(READ_INDEX_LIMIT, client.read_index(request)) => reply.ok()?.ok()?.into_inner(),
            // A leader that hangs may never answer; its successor will.
            _ = self.consensus.wait_leading(move |l| l.leader != Some(leader)) => return None,
        };
        if !reply.leading {
            return None;
        }
        self.stamper.note(reply.stamp_ms);
        Some(Ticket {
            index: reply.index,
            stamp_ms: reply.stamp_ms,
        })
    }
}
