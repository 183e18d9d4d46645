//! When a leader's entry passed the stages of its way. It is noted in memory, beside the entry, until its proposer has its outcome: the
//! log's bytes have nothing of it, so what another node applies, and what is applied again after a start, has no spans.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use super::span::Trace;

/// Beside an entry in memory: where its stages are noted, if its trace is recorded. Any two are equal, for it is no part of the entry.
#[derive(Debug, Clone, Default)]
pub struct Passage(Option<Arc<Stages>>);

#[derive(Debug, Default)]
struct Stages {
    durable: OnceLock<Instant>,
    applying: OnceLock<Instant>,
    applied: OnceLock<Instant>,
}

impl PartialEq for Passage {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Passage {}

impl Passage {
    /// Whether anything is noted.
    #[must_use]
    pub fn is_noted(&self) -> bool {
        self.0.is_some()
    }

    /// The entry is durable on this node.
    pub fn durable(&self) {
        self.note(|stages| &stages.durable);
    }

    /// The entry is committed, and its turn to be applied has come.
    pub fn applying(&self) {
        self.note(|stages| &stages.applying);
    }

    /// The entry is applied.
    pub fn applied(&self) {
        self.note(|stages| &stages.applied);
    }

    fn note(&self, stage: impl Fn(&Stages) -> &OnceLock<Instant>) {
        if let Some(stages) = &self.0 {
            // It passes each stage once.
            let _first = stage(stages).set(Instant::now());
        }
    }
}

#[cfg(test)]
impl Passage {
    /// Where stages are noted.
    pub(crate) fn noted() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether the entry is durable, as far as is noted.
    pub(crate) fn is_durable(&self) -> bool {
        let stages = self.0.as_deref();
        stages.is_some_and(|stages| stages.durable.get().is_some())
    }
}

/// A command of a recorded trace on its way through the log. When this is dropped, its trace is told of the stages that it has passed.
#[derive(Debug)]
pub struct Entered {
    trace: Trace,
    began: Instant,
    stages: Arc<Stages>,
}

impl Entered {
    /// It enters the log now.
    #[must_use]
    pub fn now(trace: Trace) -> Self {
        Self {
            trace,
            began: Instant::now(),
            stages: Arc::default(),
        }
    }

    /// What goes beside its entry.
    #[must_use]
    pub fn passage(&self) -> Passage {
        Passage(Some(Arc::clone(&self.stages)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Stages {
            durable,
            applying,
            applied,
        } = &*self.stages;
        if let Some(durable) = durable.get() {
            self.trace.record("append", self.began, *durable);
        }
        if let (Some(applying), Some(applied)) = (applying.get(), applied.get()) {
            self.trace.record("replicate", self.began, *applying);
            self.trace.record("apply", *applying, *applied);
        }
    }
}
