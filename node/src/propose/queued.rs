//! A command that waits, and who hears what becomes of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_proto::command::v1::Command;
use prost::Message;
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinError, JoinSet},
    time::Instant,
};

use super::at_leader::AtLeader;
use crate::{
    attempt::{Attempt, Rejection, Timed},
    fair_queue::FairQueue,
    keyed_places::SharedPlace,
    limits::{COMMAND_WEIGHT_BYTES, PROPOSE_BATCHES_BESIDE_MAX, PROPOSE_BATCHES_MAX},
    traces::{Span, Trace},
};

/// Commands that wait, by their tenants. Those of the nodes themselves and of operators have none, and so turns of their own.
pub(super) type Waiting = FairQueue<String, Queued>;

/// What became of some of the commands that were given together, each with its place among them.
pub type Answered = Vec<(usize, Attempt)>;

/// The command, until it leaves the queue or its caller gives it up. The first of these takes it, which decides, once, whether it was
/// sent: what never left the queue certainly did not happen.
type Place = Arc<Mutex<Option<Held>>>;

struct Held {
    command: Box<Command>,
    /// Where spans of its way belong, if its trace is recorded; and the one of its wait here.
    trace: Option<Trace>,
    _wait: Option<Span>,
    /// Its room in this node's queue; a command from another node takes none.
    _room: Option<SharedPlace>,
}

/// A command that waits.
pub(super) struct Queued {
    place: Place,
    deadline: Instant,
    reply: Reply,
}

/// What the caller of a command keeps while it waits. Dropped, it frees a command that is still queued at once, and its room.
pub(super) struct Hold(Place);

/// What becomes of commands that were given together. Dropped, it frees those that are still queued at once.
pub struct Answers {
    answers: mpsc::UnboundedReceiver<Answered>,
    _holds: Vec<Hold>,
}

/// Who hears what becomes of a command.
pub(super) enum Reply {
    /// A caller of this node.
    Caller(oneshot::Sender<Attempt>),
    /// One who gave several commands together, and the place of this one among them.
    Several(usize, mpsc::UnboundedSender<Answered>),
}

impl Queued {
    /// A command of a caller of this node, and where that hears what became of it.
    pub(super) fn of_caller(
        timed: Timed,
        room: SharedPlace,
    ) -> (Self, Hold, oneshot::Receiver<Attempt>) {
        let (reply, answer) = oneshot::channel();
        let queued = Self::new(timed, Reply::Caller(reply), Some(room));
        let hold = Hold(Arc::clone(&queued.place));
        (queued, hold, answer)
    }

    /// Commands that are given together. If what comes of them ends early, the fate of the others is not known.
    pub(super) fn several(commands: Vec<Timed>) -> (Vec<Self>, Answers) {
        let (reply, answers) = mpsc::unbounded_channel();
        let queued = commands.into_iter().enumerate();
        let queued: Vec<_> = queued
            .map(|(at, timed)| Self::new(timed, Reply::Several(at, reply.clone()), None))
            .collect();
        let hold = |queued: &Self| Hold(Arc::clone(&queued.place));
        let answers = Answers {
            answers,
            _holds: queued.iter().map(hold).collect(),
        };
        (queued, answers)
    }

    fn new(timed: Timed, reply: Reply, room: Option<SharedPlace>) -> Self {
        let held = Held {
            command: timed.command,
            _wait: timed.trace.as_ref().and_then(|trace| trace.span("queue")),
            trace: timed.trace,
            _room: room,
        };
        Self {
            place: Arc::new(Mutex::new(Some(held))),
            deadline: timed.deadline,
            reply,
        }
    }

    /// Puts it behind the other commands of its tenant, unless it was given up. What remains of commands that were given up gets bounded
    /// here: they have no room any more.
    pub(super) fn wait_in(self, waiting: &mut Waiting) {
        let place = Arc::clone(&self.place);
        if let Some(Held { command, .. }) = lock(&place).as_ref() {
            let weight = COMMAND_WEIGHT_BYTES + command.encoded_len();
            waiting.push(command.tenant.as_str(), weight, self);
        }
        waiting.sweep(Self::is_wanted);
    }

    /// Whether its outcome is still waited for.
    pub(super) fn is_wanted(&self) -> bool {
        let has_gone = match &self.reply {
            Reply::Caller(reply) => reply.is_closed(),
            Reply::Several(_, reply) => reply.is_closed(),
        };
        !has_gone
    }

    /// Refuses a command of another node whose deadline has passed, so that it takes no place in a batch; false for others. A caller of
    /// this node sees by itself that it is too late.
    pub(super) fn refuse_late(&self, now: Instant) -> bool {
        let Reply::Several(at, reply) = &self.reply else {
            return false;
        };
        if self.deadline > now {
            return false;
        }
        if lock(&self.place).take().is_some() {
            // A leader that is cut off is no leader, and has not too much to do. One who has gone away wants no answer.
            let _ = reply.send(vec![(*at, Attempt::Rejected(Rejection::NotLeading))]);
        }
        true
    }

    /// Takes the command to be sent; nothing if its caller has given it up.
    pub(super) fn leave(self) -> Option<(Timed, Reply)> {
        let Held { command, trace, .. } = lock(&self.place).take()?;
        let timed = Timed {
            command,
            deadline: self.deadline,
            trace,
        };
        Some((timed, self.reply))
    }
}

impl Hold {
    /// Gives the command up. False if it has left the queue.
    pub(super) fn give_up(&self) -> bool {
        lock(&self.0).take().is_some()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Answers {
    /// Waits for the next message. `None`: no more of them come.
    pub async fn recv(&mut self) -> Option<Answered> {
        self.answers.recv().await
    }

    /// Waits for the next messages, and takes at most `limit` of them. 0: no more of them come.
    pub async fn recv_many(&mut self, received: &mut Vec<Answered>, limit: usize) -> usize {
        self.answers.recv_many(received, limit).await
    }
}

impl Reply {
    /// Says what became of the command.
    pub(super) fn tell(self, attempt: Attempt) {
        tell_all([self], [attempt]);
    }
}

/// Waits until one more batch may be under way: of anything, or beside those that are, of a waiting tenant that has nothing in them. What
/// arrives meanwhile is put where it waits: what is left of commands that are given up is bounded there alone.
pub(super) async fn until_room(
    under_way: &mut JoinSet<()>,
    arrived: &mut mpsc::UnboundedReceiver<Queued>,
    waiting: &mut Waiting,
    there: &AtLeader,
) {
    loop {
        while let Some(ended) = under_way.try_join_next() {
            note_ended(ended);
        }
        let begun = under_way.len();
        let may_go_beside = begun < PROPOSE_BATCHES_MAX + PROPOSE_BATCHES_BESIDE_MAX;
        if begun < PROPOSE_BATCHES_MAX || (may_go_beside && there.lacks_one(waiting.keys())) {
            return;
        }
        tokio::select! {
            Some(ended) = under_way.join_next() => note_ended(ended),
            Some(queued) = arrived.recv() => {
                queued.wait_in(waiting);
                while let Ok(queued) = arrived.try_recv() {
                    queued.wait_in(waiting);
                }
            }
            () = there.one_left(), if may_go_beside => {}
        }
    }
}

/// The callers of a batch that broke hear that the outcome is not known.
fn note_ended(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a batch of commands broke");
    }
}

/// Says what became of commands, to each who waits. One who gave several hears of them in one message.
pub(super) fn tell_all(
    replies: impl IntoIterator<Item = Reply>,
    attempts: impl IntoIterator<Item = Attempt>,
) {
    let mut together: Vec<(mpsc::UnboundedSender<Answered>, Answered)> = Vec::new();
    for (reply, attempt) in replies.into_iter().zip(attempts) {
        match reply {
            Reply::Caller(reply) => {
                // A caller that has gone away wants no answer.
                let _ = reply.send(attempt);
            }
            Reply::Several(at, reply) => {
                // Mostly the last one: the commands of one tenant come in a row.
                let mut known = together.iter_mut().rev();
                match known.find(|(other, _)| other.same_channel(&reply)) {
                    Some((_, answered)) => answered.push((at, attempt)),
                    None => together.push((reply, vec![(at, attempt)])),
                }
            }
        }
    }
    for (reply, answered) in together {
        // As above.
        let _ = reply.send(answered);
    }
}

fn lock(place: &Mutex<Option<Held>>) -> MutexGuard<'_, Option<Held>> {
    // Nothing panics under the lock.
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::{keyed_places::SharedPlaces, limits::TURN_BYTES};

    pub(in crate::propose) fn timed(tenant: &str) -> Timed {
        let command = Command {
            tenant: tenant.to_owned(),
            ..Command::default()
        };
        Timed {
            command: Box::new(command),
            deadline: Instant::now(),
            trace: None,
        }
    }

    fn of_caller(room: &SharedPlaces) -> (Queued, Hold, oneshot::Receiver<Attempt>) {
        let room = room.take("acme", 1).unwrap();
        Queued::of_caller(timed("acme"), room)
    }

    #[test]
    fn command_is_sent_or_given_up_and_never_both() {
        let room = SharedPlaces::new(3);
        let (sent, hold, _answer) = of_caller(&room);
        assert!(sent.is_wanted());
        assert!(sent.leave().is_some());
        assert!(!hold.give_up(), "it has left the queue");

        let (given_up, hold, _answer) = of_caller(&room);
        assert!(hold.give_up());
        assert!(given_up.leave().is_none());
        assert_eq!(room.used(), 0, "room is returned both ways");
    }

    #[test]
    fn caller_that_goes_away_frees_its_queued_command_at_once() {
        let room = SharedPlaces::new(1);
        let (queued, hold, answer) = of_caller(&room);
        let mut waiting = Waiting::new(TURN_BYTES);
        let place = Arc::clone(&queued.place);
        queued.wait_in(&mut waiting);
        assert!(lock(&place).is_some());
        drop((hold, answer));
        assert!(lock(&place).is_none());
        assert_eq!(room.used(), 0, "before it would have its turn");
        assert!(waiting.take(1, 1, Queued::is_wanted).is_empty());
    }

    #[test]
    fn little_is_left_of_commands_that_are_given_up() {
        let room = SharedPlaces::new(1);
        let mut waiting = Waiting::new(TURN_BYTES);
        for _ in 0..10_000 {
            let (queued, hold, answer) = of_caller(&room);
            queued.wait_in(&mut waiting);
            drop((hold, answer));
        }
        assert!(waiting.len() < 1_000, "{}", waiting.len());
    }

    #[tokio::test]
    async fn tenant_with_nothing_at_the_leader_goes_beside_full_batches() {
        let room = SharedPlaces::new(3);
        let there = AtLeader::default();
        let part = there.parts(&[timed("acme")]);
        let mut under_way = JoinSet::new();
        for _ in 0..PROPOSE_BATCHES_MAX {
            under_way.spawn(std::future::pending());
        }
        let (queue, mut arrived) = mpsc::unbounded_channel();
        let mut waiting = Waiting::new(TURN_BYTES);
        let (queued, _hold, _answer) = of_caller(&room);
        queue.send(queued).ok().unwrap();
        let mut until_room = |under_way: &mut JoinSet<()>, there: &AtLeader| {
            let room = until_room(under_way, &mut arrived, &mut waiting, there).now_or_never();
            (room.is_some(), arrived.len(), waiting.len())
        };
        // What is at the leader of its tenant keeps it here.
        assert_eq!(until_room(&mut under_way, &there), (false, 0, 1));
        let other = Queued::several(vec![timed("other")]);
        queue
            .send(other.0.into_iter().next().unwrap())
            .ok()
            .unwrap();
        assert_eq!(until_room(&mut under_way, &there), (true, 0, 2));
        let other_part = there.parts(&[timed("other")]);
        assert_eq!(until_room(&mut under_way, &there), (false, 0, 2));
        drop(part);
        assert_eq!(until_room(&mut under_way, &there), (true, 0, 2));
        for _ in 0..PROPOSE_BATCHES_BESIDE_MAX {
            under_way.spawn(std::future::pending());
        }
        drop(other_part);
        assert_eq!(until_room(&mut under_way, &there), (false, 0, 2));
    }

    #[test]
    fn commands_given_together_are_freed_when_their_stream_ends() {
        let (queued, answers) = Queued::several(vec![timed("a"), timed("b")]);
        let places: Vec<_> = queued.iter().map(|it| Arc::clone(&it.place)).collect();
        let mut waiting = Waiting::new(TURN_BYTES);
        for queued in queued {
            queued.wait_in(&mut waiting);
        }
        assert!(places.iter().all(|place| lock(place).is_some()));
        drop(answers);
        assert!(places.iter().all(|place| lock(place).is_none()));
    }

    #[test]
    fn several_commands_of_one_are_answered_in_one_message() {
        let (first, mut first_answers) = Queued::several(vec![timed("a"), timed("b"), timed("a")]);
        let (second, mut second_answers) = Queued::several(vec![timed("a")]);
        let mut waiting = Waiting::new(TURN_BYTES);
        for queued in first.into_iter().chain(second) {
            queued.wait_in(&mut waiting);
        }
        let batch = waiting.take(9, usize::MAX, Queued::is_wanted);
        let left: Vec<_> = batch.into_iter().filter_map(Queued::leave).collect();
        let tenants: Vec<_> = left
            .iter()
            .map(|(timed, _)| &*timed.command.tenant)
            .collect();
        assert_eq!(tenants, ["a", "a", "a", "b"], "each tenant's in order");
        let stopping = || Attempt::Rejected(Rejection::Stopping);
        tell_all(
            left.into_iter().map(|(_, reply)| reply),
            std::iter::repeat_with(stopping),
        );
        let places = |answered: Answered| answered.into_iter().map(|(at, _)| at).collect();
        let first: Vec<usize> = places(first_answers.answers.try_recv().unwrap());
        let second: Vec<usize> = places(second_answers.answers.try_recv().unwrap());
        assert_eq!((first, second), (vec![0, 2, 1], vec![0]));
        let ended = Err(mpsc::error::TryRecvError::Disconnected);
        assert_eq!(first_answers.answers.try_recv().map(drop), ended);
    }
}
