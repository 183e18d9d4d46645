//! A leader's batches. Whatever arrives while enough of them are under way, from this node's callers or from another node, waits for the
//! next: a batch has a price of its own in each stage on each node, and the fuller it is, the less of that each command pays.
//!
//! Tenants take turns in them: a tenant of which much waits holds up the commands of others for a turn.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use super::{
    Core,
    queued::{Queued, Reply, Waiting, tell_all},
};
use crate::{
    attempt::Timed,
    limits::{EXECUTE_BATCHES_MAX, EXECUTE_BYTES_MAX, EXECUTE_COMMANDS_MAX, TURN_BYTES},
};

/// The batches under way, and what waits for the next.
pub(super) struct Turns(Mutex<State>);

struct State {
    under_way: usize,
    waiting: Waiting,
}

/// A batch that is under way. When it ends, or is given up, the waiting commands get the next.
struct Turn {
    core: Arc<Core>,
    batch: Vec<Queued>,
    _alarm: Alarm,
}

/// Logs a panic of the batch that it belongs to: its callers hear only that the outcomes are not known.
struct Alarm;

impl Core {
    /// Has commands executed if this node leads, at once or together with others. Each who waits hears what became of its own.
    pub(super) fn execute(self: &Arc<Self>, commands: impl IntoIterator<Item = Queued>) {
        self.turns.lock().wait(commands);
        while let Some(turn) = Turn::begin(self) {
            tokio::spawn(turn.run());
        }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self(Mutex::new(State {
            under_way: 0,
            waiting: Waiting::new(TURN_BYTES),
        }))
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if it does nevertheless, the content is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait(&mut self, commands: impl IntoIterator<Item = Queued>) {
        for queued in commands {
            queued.wait_in(&mut self.waiting);
        }
    }

    /// Those whose turns are next, as many as fit one batch.
    fn next(&mut self) -> Vec<Queued> {
        let now = Instant::now();
        let is_due = |queued: &Queued| queued.is_wanted() && !queued.refuse_late(now);
        let waiting = &mut self.waiting;
        waiting.take(EXECUTE_COMMANDS_MAX, EXECUTE_BYTES_MAX, is_due)
    }
}

impl Turn {
    /// A batch of those who wait, if there may be one more.
    fn begin(core: &Arc<Core>) -> Option<Self> {
        let mut turns = core.turns.lock();
        if turns.under_way >= EXECUTE_BATCHES_MAX {
            return None;
        }
        let batch = turns.next();
        if batch.is_empty() {
            return None;
        }
        turns.under_way += 1;
        Some(Self {
            core: Arc::clone(core),
            batch,
            _alarm: Alarm,
        })
    }

    async fn run(mut self) {
        let batch = mem::take(&mut self.batch).into_iter();
        let (commands, replies): (Vec<Timed>, Vec<Reply>) = batch.filter_map(Queued::leave).unzip();
        let Some(deadline) = commands.iter().map(|timed| timed.deadline).max() else {
            return;
        };
        // A leader that was cut off may answer only when it is connected again. Who waits hears that the outcome is not known.
        let attempts = timeout_at(deadline, self.core.execute_together(commands));
        let Ok(attempts) = attempts.await else { return };
        self.core.note_executed(&attempts);
        tell_all(replies, attempts);
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

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            tracing::error!("a leader's batch of commands broke: report this");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic,
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use futures::FutureExt;
    use helve_proto::command::v1::Command;
    use tracing::{
        Event, Level, Metadata, Subscriber,
        span::{Attributes, Id, Record},
        subscriber,
    };

    use super::*;
    use crate::{
        attempt::{Attempt, Rejection},
        propose::queued::Answers,
    };

    fn timed(tenant: &str, bytes: usize) -> Timed {
        let command = Command {
            tenant: tenant.to_owned(),
            principal: "p".repeat(bytes),
            ..Command::default()
        };
        Timed {
            command: Box::new(command),
            deadline: Instant::now() + Duration::from_secs(60),
            trace: None,
        }
    }

    /// For each tenant this many commands of this many bytes, which wait in this order.
    fn state(commands: &[(&str, usize, usize)]) -> (State, Vec<Answers>) {
        let Turns(state) = Turns::default();
        let mut state = state.into_inner().unwrap();
        let wait = |&(tenant, count, bytes): &(&str, usize, usize)| {
            let commands = std::iter::repeat_with(|| timed(tenant, bytes));
            let (queued, answers) = Queued::several(commands.take(count).collect());
            state.wait(queued);
            answers
        };
        let answers = commands.iter().map(wait).collect();
        (state, answers)
    }

    /// The tenants whose commands are in the next batch.
    fn next(state: &mut State) -> Vec<String> {
        let batch = state.next().into_iter().filter_map(Queued::leave);
        batch.map(|(timed, _)| timed.command.tenant).collect()
    }

    #[test]
    fn batch_is_what_fits_or_one_command_that_is_too_large() {
        let small = ("a", EXECUTE_COMMANDS_MAX + 1, 1);
        let (mut state, _answers) = state(&[small, ("a", 1, EXECUTE_BYTES_MAX), ("a", 2, 1)]);
        let mut lengths = Vec::new();
        while !state.waiting.is_empty() {
            lengths.push(next(&mut state).len());
        }
        assert_eq!(lengths, [EXECUTE_COMMANDS_MAX, 1, 1, 2]);
    }

    #[test]
    fn commands_of_one_tenant_are_in_the_next_batch_beside_many() {
        let many = ("greedy", 4 * EXECUTE_COMMANDS_MAX, 1);
        let large = ("greedy", 16, EXECUTE_BYTES_MAX / 4);
        for greedy in [many, large] {
            let (mut state, _answers) = state(&[greedy, ("honest", 3, 100)]);
            let batch = next(&mut state);
            let honest = batch.iter().filter(|tenant| *tenant == "honest");
            assert_eq!(honest.count(), 3, "beside {greedy:?}");
            assert!(batch.contains(&"greedy".to_owned()), "the rest is used");
        }
    }

    #[test]
    fn late_commands_are_refused_and_take_no_place_in_a_batch() {
        let (mut state, _none) = state(&[]);
        let late = std::iter::repeat_with(|| Timed {
            deadline: Instant::now(),
            ..timed("late", 1)
        });
        let late = late.take(EXECUTE_COMMANDS_MAX).collect();
        let (queued, mut answers) = Queued::several(late);
        state.wait(queued);
        let (queued, _in_time) = Queued::several(vec![timed("late", 1), timed("late", 1)]);
        state.wait(queued);
        assert_eq!(next(&mut state).len(), 2, "those in time");
        let refused = std::iter::from_fn(|| answers.recv().now_or_never().flatten());
        let refused: Vec<_> = refused.flatten().map(|(_, attempt)| attempt).collect();
        assert_eq!(refused.len(), EXECUTE_COMMANDS_MAX);
        let is_told =
            |attempt: &Attempt| matches!(attempt, Attempt::Rejected(Rejection::NotLeading));
        assert!(refused.iter().all(is_told));
    }

    /// Counts the errors in the log.
    struct Errors(Arc<AtomicUsize>);

    impl Subscriber for Errors {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::ERROR
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn batch_that_panics_leaves_a_line_in_the_log() {
        let errors = Arc::<AtomicUsize>::default();
        let broke: thread::Result<()> =
            subscriber::with_default(Errors(Arc::clone(&errors)), || {
                panic::catch_unwind(|| {
                    let _alarm = Alarm;
                    panic!("planted");
                })
            });
        assert!(broke.is_err());
        assert_eq!(errors.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn commands_whose_caller_has_gone_make_no_batch() {
        let (mut state, answers) = state(&[("a", 3, 1)]);
        drop(answers);
        assert!(state.next().is_empty());
        assert!(state.waiting.is_empty());
    }
}
