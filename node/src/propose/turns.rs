//! A leader's batches. Whatever arrives while enough of them are under way, from this node's callers or from another node, goes together
//! with the next: a batch has a price of its own in each stage on each node, and the fuller it is, the less of that each command pays.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{runtime::Handle, sync::oneshot, time::timeout_at};

use super::Core;
use crate::{
    attempt::{Attempt, Timed},
    limits::{EXECUTE_BATCHES_MAX, EXECUTE_COMMANDS_MAX},
};

/// The batches under way, and who waits for the next.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    waiting: Vec<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    commands: Vec<Timed>,
    reply: oneshot::Sender<Vec<Attempt>>,
}

/// A batch that is under way. When it ends, or is given up, the waiting commands get the next.
struct Turn {
    core: Arc<Core>,
    waiters: Vec<Waiter>,
}

impl Core {
    /// Executes commands if this node leads, at once or together with others, and answers what became of each, in order.
    pub(super) async fn execute(self: &Arc<Self>, commands: Vec<Timed>) -> Vec<Attempt> {
        let count = commands.len();
        let (reply, answer) = oneshot::channel();
        self.turns.lock().waiting.push(Waiter { commands, reply });
        if let Some(turn) = Turn::begin(self) {
            turn.run().await;
        }
        let lost = |_| {
            let lost = || Attempt::Unknown("no answer within the deadline".to_owned());
            std::iter::repeat_with(lost).take(count).collect()
        };
        answer.await.unwrap_or_else(lost)
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if it does nevertheless, the content is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Those who have waited longest, as many as fit one batch, but at least one.
    fn next(&mut self) -> Vec<Waiter> {
        let mut commands = 0;
        let fits = |waiter: &&Waiter| {
            commands += waiter.commands.len();
            commands <= EXECUTE_COMMANDS_MAX
        };
        let count = self.waiting.iter().take_while(fits).count().max(1);
        let rest = self.waiting.split_off(count.min(self.waiting.len()));
        mem::replace(&mut self.waiting, rest)
    }
}

impl Turn {
    /// A batch of those who wait, if there may be one more.
    fn begin(core: &Arc<Core>) -> Option<Self> {
        let mut turns = core.turns.lock();
        if turns.under_way >= EXECUTE_BATCHES_MAX || turns.waiting.is_empty() {
            return None;
        }
        turns.under_way += 1;
        Some(Self {
            core: Arc::clone(core),
            waiters: turns.next(),
        })
    }

    async fn run(mut self) {
        let mut commands = Vec::new();
        let mut replies = Vec::new();
        for waiter in self.waiters.drain(..) {
            replies.push((waiter.commands.len(), waiter.reply));
            commands.extend(waiter.commands);
        }
        let Some(deadline) = commands.iter().map(|timed| timed.deadline).max() else {
            return;
        };
        // A leader that was cut off may answer only when it is connected again. Who waits hears that the outcome is not known.
        let attempts = timeout_at(deadline, self.core.execute_together(commands));
        let Ok(attempts) = attempts.await else { return };
        let mut attempts = attempts.into_iter();
        for (count, reply) in replies {
            // A caller that has gone away wants no answer.
            let _ = reply.send(attempts.by_ref().take(count).collect());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.core.turns.lock().under_way -= 1;
        // Without a runtime the node has stopped, and no caller waits.
        if let Ok(runtime) = Handle::try_current()
            && let Some(next) = Self::begin(&self.core)
        {
            runtime.spawn(next.run());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn state(counts: &[usize]) -> State {
        let timed = || Timed {
            command: Box::default(),
            deadline: Instant::now(),
        };
        let waiter = |&count: &usize| Waiter {
            commands: std::iter::repeat_with(timed).take(count).collect(),
            reply: oneshot::channel().0,
        };
        State {
            under_way: 0,
            waiting: counts.iter().map(waiter).collect(),
        }
    }

    fn next(state: &mut State) -> Vec<usize> {
        let next = state.next().into_iter();
        next.map(|waiter| waiter.commands.len()).collect()
    }

    #[test]
    fn a_batch_is_of_those_who_waited_longest_and_fit_or_of_one_that_is_too_large() {
        let mut state = state(&[1, EXECUTE_COMMANDS_MAX - 1, 1, EXECUTE_COMMANDS_MAX + 1, 2]);
        assert_eq!(next(&mut state), [1, EXECUTE_COMMANDS_MAX - 1]);
        assert_eq!(next(&mut state), [1]);
        assert_eq!(next(&mut state), [EXECUTE_COMMANDS_MAX + 1]);
        assert_eq!(next(&mut state), [2]);
        assert_eq!(next(&mut state), [0; 0]);
    }
}
