//! The way of every write: through the leader's log, in batches, until its outcome is known or the deadline ends.
//!
//! Every command has an identity, so a command whose fate is unknown is proposed again under the same one, here or through
//! another leader, and takes effect at most once. Only a rejection before append, or an outcome, says "not done".

mod at_leader;
mod error;
mod kinds;
mod next_batch;
mod own_session;
mod queued;
mod rates;
mod settle;
mod turns;

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use helve_machine::is_repeatable;
use helve_proto::command::v1::{Command, Outcome};
use prost::Message;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};

use self::{
    at_leader::{AtLeader, Part},
    kinds::{above_level, counts_as_write, frees_space},
    next_batch::next_batch,
    own_session::{Opened, OwnSessions},
    queued::{Queued, Reply, Waiting, until_room},
    rates::Rates,
    settle::{final_rejection, of_answer, settle},
    turns::Turns,
};
pub use self::{
    error::ProposeError,
    queued::{Answered, Answers},
};
use crate::{
    attempt::{Attempt, Rejection, Timed},
    bounds::{self, Shared},
    disk_watch::DiskWatch,
    failpoint::{self, Failpoint},
    forward::Forwarder,
    keyed_places::SharedPlaces,
    limits::{LOG_QUEUED_BYTES_MAX, PROPOSE_BATCH_COMMANDS_MAX, PROPOSE_QUEUE_MAX, TURN_BYTES},
    raft::{Consensus, log_store::LogStore},
    stamp::Stamper,
    storage::state_db::StateDb,
    traces::{self, Entered, Passage, Traces},
};

/// Proposes commands. Cheap to clone.
#[derive(Clone)]
pub struct Proposer {
    queue: mpsc::UnboundedSender<Queued>,
    core: Arc<Core>,
}

struct Core {
    consensus: Consensus,
    forwarder: Forwarder,
    stamper: Arc<Stamper>,
    disk: Arc<DiskWatch>,
    log: LogStore,
    sessions: OwnSessions,
    rates: Rates,
    turns: Turns,
    traces: Traces,
    /// Room for commands of this node that wait, by their tenants.
    room: SharedPlaces,
    /// Grows whenever something was executed.
    executed: AtomicU64,
    /// Commands that were refused since too much waited for the log's disk, ever.
    log_refused: AtomicU64,
}

impl Proposer {
    /// A proposer, and what carries its commands out: nothing is proposed unless that runs, and it ends with the last proposer.
    pub fn new(
        consensus: Consensus,
        forwarder: Forwarder,
        stamper: Arc<Stamper>,
        disk: Arc<DiskWatch>,
        log: LogStore,
        state: Arc<StateDb>,
        traces: Traces,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, arrived) = mpsc::unbounded_channel();
        let sessions = OwnSessions::default();
        let core = Arc::new(Core {
            consensus,
            forwarder,
            stamper,
            disk,
            log,
            sessions,
            rates: Rates::new(state),
            turns: Turns::default(),
            traces,
            room: SharedPlaces::new(PROPOSE_QUEUE_MAX),
            executed: AtomicU64::new(0),
            log_refused: AtomicU64::new(0),
        });
        let proposing = batches(Arc::clone(&core), arrived);
        (Self { queue, core }, proposing)
    }

    /// Has a command executed, and waits for its outcome. A command without identity gets one of this node's own.
    ///
    /// # Errors
    /// See [`ProposeError`]; only `Unknown` leaves open whether the command took effect.
    pub async fn propose(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Outcome, ProposeError> {
        if command.identity.is_some() || is_repeatable(command) {
            return self.attempts(command, deadline).await;
        }
        let mut command = Box::new(command.clone());
        loop {
            let call = match self.core.sessions.call(self, &command, deadline).await? {
                Opened::Call(call) => call,
                Opened::Refused(outcome) => return Ok(*outcome),
            };
            command.identity = Some(call.identity());
            let outcome = self.attempts(&command, deadline).await?;
            if !call.must_renew(&outcome) {
                return Ok(outcome);
            }
            // Nothing was executed, and this identity was never anybody else's: another one is safe.
            self.core.sessions.forget(&call);
        }
    }

    async fn attempts(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Outcome, ProposeError> {
        let mut unknown: Option<String> = None;
        let mut pause = Duration::from_millis(5);
        loop {
            match self.attempt(Box::new(command.clone()), deadline).await {
                Attempt::Outcome(outcome) => return settle(*outcome, unknown),
                Attempt::Rejected(rejection) => {
                    if unknown.is_none()
                        && let Some(error) = final_rejection(rejection)
                    {
                        return Err(error);
                    }
                }
                Attempt::Unknown(why) => unknown = Some(why),
            }
            if Instant::now() + pause >= deadline {
                return Err(unknown.map_or(ProposeError::NoLeader, ProposeError::Unknown));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    async fn attempt(&self, command: Box<Command>, deadline: Instant) -> Attempt {
        // This node would have to store it as well, whichever node leads.
        if self.core.disk.is_low() && !frees_space(&command) {
            return Attempt::Rejected(Rejection::DiskFull);
        }
        let Some(room) = self.core.room.take(&command.tenant, 1) else {
            return Attempt::Rejected(Rejection::Overloaded(bounds::QUEUED_COMMANDS));
        };
        let timed = Timed {
            command,
            deadline,
            trace: traces::current(),
        };
        let (queued, hold, answer) = Queued::of_caller(timed, room);
        let before = self.core.executed.load(Ordering::Relaxed);
        if self.queue.send(queued).is_err() {
            return Attempt::Rejected(Rejection::Stopping);
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(attempt)) => attempt,
            Ok(Err(_)) => Attempt::Unknown("the node stopped".to_owned()),
            // It never had its turn: because others had theirs, or because there is no leader.
            Err(_) if hold.give_up() => {
                let is_busy = self.core.executed.load(Ordering::Relaxed) != before;
                Attempt::Rejected(if is_busy {
                    Rejection::Overloaded(bounds::QUEUED_COMMANDS)
                } else {
                    Rejection::NotLeading
                })
            }
            Err(_) => Attempt::Unknown("no answer within the deadline".to_owned()),
        }
    }

    /// Executes commands that another node forwarded, if this node leads. It never forwards them again. If what comes of them ends
    /// early, the fate of the others is not known. Dropping the answers gives up the commands that still wait.
    #[must_use]
    pub fn execute_here(&self, commands: Vec<Timed>) -> Answers {
        let (queued, answers) = Queued::several(commands);
        self.core.execute(queued);
        answers
    }

    /// Begins the spans of calls, and of commands that come from other nodes.
    #[must_use]
    pub fn traces(&self) -> &Traces {
        &self.core.traces
    }

    /// Whether this node leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.core.consensus.leading().here
    }

    /// Commands of this node that wait to be proposed or forwarded.
    #[must_use]
    pub fn queued(&self) -> Shared {
        Shared {
            used: self.core.room.used(),
            limit: PROPOSE_QUEUE_MAX,
            refused: self.core.room.refused(),
        }
    }

    /// Bytes of entries that wait for the log's disk. Only a leader refuses commands for it.
    #[must_use]
    pub fn log_queued(&self) -> Shared {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let queued = &self.core.log.stats().queued_bytes;
        Shared {
            used: bytes(queued.load(Ordering::Relaxed)),
            limit: bytes(LOG_QUEUED_BYTES_MAX),
            refused: self.core.log_refused.load(Ordering::Relaxed),
        }
    }

    /// The id of the node that leads, as far as known; 0 if it is not.
    #[must_use]
    pub fn leader_id(&self) -> u64 {
        self.core.consensus.leading().leader.unwrap_or(0)
    }
}

/// Takes what has arrived, without lingering. While another node leads, it goes there in a few batches at a time, in which tenants take
/// turns; on the leader they do where commands of all nodes meet. A batch ends with its last answer. While all of them
/// are under way, tenants that have nothing at the leader send a turn's worth beside them.
async fn batches(core: Arc<Core>, mut arrived: mpsc::UnboundedReceiver<Queued>) {
    let mut under_way = JoinSet::new();
    let mut arriving = Vec::with_capacity(PROPOSE_BATCH_COMMANDS_MAX);
    let mut waiting = Waiting::new(TURN_BYTES);
    let there = AtLeader::default();
    loop {
        until_room(&mut under_way, &mut arrived, &mut waiting, &there).await;
        if waiting.is_empty() && arrived.recv_many(&mut arriving, PROPOSE_QUEUE_MAX).await == 0 {
            return;
        }
        // What came while the others waited has its turns, too.
        arriving.extend(iter::from_fn(|| arrived.try_recv().ok()));
        let leading = core.consensus.leading();
        if leading.here {
            let before = waiting.take(usize::MAX, usize::MAX, Queued::is_wanted);
            core.execute(before.into_iter().chain(arriving.drain(..)));
            continue;
        }
        for queued in arriving.drain(..) {
            queued.wait_in(&mut waiting);
        }
        let batch = next_batch(under_way.len(), &mut waiting, &there);
        let batch = batch.into_iter().filter_map(Queued::leave);
        if let Some(leader) = leading.leader {
            let (commands, replies): (Vec<_>, Vec<_>) = batch.unzip();
            let replies = replies.into_iter().zip(there.parts(&commands)).collect();
            let core = Arc::clone(&core);
            under_way.spawn(async move { core.forward(leader, commands, replies).await });
        } else {
            batch.for_each(|(_, reply)| reply.tell(Attempt::Rejected(Rejection::NotLeading)));
        }
    }
}

impl Core {
    /// Forwards, and says what became of each command as soon as that is known. It does not wait for a leader that has lost its office: a
    /// hung one may never answer.
    async fn forward(&self, leader: u64, commands: Vec<Timed>, replies: Vec<(Reply, Arc<Part>)>) {
        let Some(deadline) = commands.iter().map(|timed| timed.deadline).max() else {
            return;
        };
        let mut replies: Vec<_> = replies.into_iter().map(Some).collect();
        let mut attempts = self.forwarder.forward(leader, commands);
        let answered = async {
            while let Some((at, attempt)) = attempts.next().await {
                self.note_executed(std::slice::from_ref(&attempt));
                if let Some((reply, _part)) = replies.get_mut(at).and_then(Option::take) {
                    reply.tell(attempt);
                }
            }
        };
        tokio::select! {
            () = answered => {}
            // A leader that was cut off may answer only when it is connected again. No caller waits any more.
            () = sleep_until(deadline) => {}
            _ = self.consensus.wait_leading(move |l| l.leader != Some(leader)) => {
                for (reply, _) in replies.into_iter().flatten() {
                    reply.tell(Attempt::Unknown("the leader changed".to_owned()));
                }
            }
        }
    }

    fn note_executed(&self, attempts: &[Attempt]) {
        if attempts.iter().any(|a| matches!(a, Attempt::Outcome(_))) {
            self.executed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Executes commands in one batch, if this node leads.
    async fn execute_together(&self, commands: Vec<Timed>) -> Vec<Attempt> {
        let count = commands.len();
        let leading = self.consensus.leading();
        if !leading.here {
            return iter::repeat_with(|| Attempt::Rejected(Rejection::NotLeading))
                .take(count)
                .collect();
        }
        let disk_full = self.disk.is_low();
        let progress = self.consensus.applied().progress();
        let log_full = self.log.is_overloaded();
        let now = Instant::now();
        let mut attempts: Vec<Option<Attempt>> = Vec::with_capacity(count);
        let mut encoded = Vec::with_capacity(count);
        let mut entered = Vec::new();
        for timed in commands {
            if timed.deadline <= now {
                // Its turn came too late: a leader that is cut off is no leader, and has not too much to do.
                attempts.push(Some(Attempt::Rejected(Rejection::NotLeading)));
            } else if log_full {
                self.log_refused.fetch_add(1, Ordering::Relaxed);
                let full = Rejection::Overloaded(bounds::LOG_QUEUED_BYTES);
                attempts.push(Some(Attempt::Rejected(full)));
            } else if disk_full && !frees_space(&timed.command) {
                attempts.push(Some(Attempt::Rejected(Rejection::DiskFull)));
            } else if let Some(refused) = above_level(&timed.command, progress) {
                attempts.push(Some(Attempt::Outcome(Box::new(refused))));
            } else if counts_as_write(&timed.command)
                && !self.rates.admits(&timed.command.tenant, now)
            {
                attempts.push(Some(Attempt::Rejected(Rejection::WriteRate)));
            } else {
                attempts.push(None);
                let recorded = timed.trace.map(Entered::now);
                let passage = recorded.as_ref().map(Entered::passage);
                entered.extend(recorded);
                let command = self.stamped(timed.command, leading.term);
                encoded.push((command, passage.unwrap_or_default()));
            }
        }
        let mut answers = self.append(encoded).await.into_iter();
        drop(entered);
        failpoint::passed(Failpoint::OutcomeBeforeAnswer).await;
        let lost = || Attempt::Unknown("consensus stopped".to_owned());
        attempts
            .into_iter()
            .map(|a| a.or_else(|| answers.next()).unwrap_or_else(lost))
            .collect()
    }

    fn stamped(&self, mut command: Box<Command>, term: u64) -> Bytes {
        let clock_ms = self.consensus.applied().progress().clock_ms;
        command.proposed_at_ms = self.stamper.stamp(term, clock_ms);
        Bytes::from(command.encode_to_vec())
    }

    async fn append(&self, encoded: Vec<(Bytes, Passage)>) -> Vec<Attempt> {
        let count = encoded.len();
        match self.consensus.write_many(encoded).await {
            Ok(answers) => answers.map(of_answer).collect().await,
            Err(stopped) => {
                tracing::debug!(error = %stopped, "a batch was rejected");
                iter::repeat_with(|| Attempt::Rejected(Rejection::Stopping))
                    .take(count)
                    .collect()
            }
        }
    }
}
