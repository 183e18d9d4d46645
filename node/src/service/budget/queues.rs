//! Calls that wait for room in budgets.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use super::{Charge, owners::Owner};
use crate::fair_queue::Sweeps;

/// The calls that wait for one kind of room, by their owners.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    sweeps: Sweeps,
}

/// The calls of one owner that wait, in the order in which they came. They hold up no other
/// owner's.
#[derive(Debug)]
struct Queue {
    owner: Arc<Owner>,
    calls: VecDeque<Waiting>,
}

/// A call that waits for room.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) amount: usize,
    pub(super) granted: oneshot::Sender<Charge>,
}

impl Waiting {
    fn is_wanted(&self) -> bool {
        !self.granted.is_closed()
    }
}

impl Queues {
    /// Puts a call behind those of its owner.
    pub(super) fn push(&mut self, owner: &Arc<Owner>, call: Waiting) {
        let is_own = |queue: &&mut Queue| Arc::ptr_eq(&queue.owner, owner);
        match self.queues.iter_mut().find(is_own) {
            Some(queue) => queue.calls.push_back(call),
            None => self.queues.push(Queue {
                owner: Arc::clone(owner),
                calls: VecDeque::from([call]),
            }),
        }
        self.sweeps.pushed();
        // Room may be long in coming: calls that gave up meanwhile must not fill the queue.
        if self.sweeps.is_due() {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        for Queue { calls, .. } in &mut self.queues {
            calls.retain(Waiting::is_wanted);
        }
        self.queues.retain(|queue| !queue.calls.is_empty());
        self.sweeps.swept(self.len());
    }

    /// Hands out what `take` gives: to one call of each owner at a time.
    pub(super) fn grant(
        &mut self,
        take: impl Fn(&Arc<Owner>, usize) -> Option<Charge>,
    ) -> Vec<(oneshot::Sender<Charge>, Charge)> {
        let mut granted = Vec::new();
        let mut progress = !self.queues.is_empty();
        while progress {
            progress = false;
            for Queue { owner, calls } in &mut self.queues {
                while calls.front().is_some_and(|call| !call.is_wanted()) {
                    calls.pop_front();
                }
                let Some(next) = calls.front() else {
                    continue;
                };
                let Some(charge) = take(owner, next.amount) else {
                    continue;
                };
                granted.extend(calls.pop_front().map(|call| (call.granted, charge)));
                progress = true;
            }
        }
        self.queues.retain(|queue| !queue.calls.is_empty());
        granted
    }

    /// How many calls wait, gone or not. Looks at each owner.
    pub(super) fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.calls.len()).sum()
    }
}
