//! What is said to a queue, and what it says.

use helve_client::{Error, StoreOutcome};

/// How much a queue holds.
#[derive(Debug, Clone, Copy)]
pub struct QueueOptions {
    pub(super) writes_max: usize,
    pub(super) bytes_max: usize,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl QueueOptions {
    /// 10,000 writes, 64 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self {
            writes_max: 10_000,
            bytes_max: 64 << 20,
        }
    }

    /// Largest number of writes.
    #[must_use]
    pub fn writes_max(mut self, writes: usize) -> Self {
        self.writes_max = writes;
        self
    }

    /// Most bytes of keys and values.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }
}

/// When a queued write takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Whatever the key holds then.
    Any,
    /// If the key's revision is this one; 0: if there is no such key.
    Revision(u64),
    /// If the key is as the queued write before left it, which must still wait; if that one is not applied, neither is this one.
    AfterQueued,
}

/// What became of a write that may be queued.
#[derive(Debug, Clone, PartialEq)]
pub enum Queued {
    /// The cluster took it at once.
    Stored(StoreOutcome),
    /// It waits under this number, which no other one has while the queue holds anything.
    Waiting(u64),
}

/// What became of a queued write.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The write's number.
    pub number: u64,
    /// The key's owner.
    pub owner: String,
    /// The key.
    pub key: String,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a queued write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It took effect, once.
    Applied {
        /// The key's revision since; 0 after a deletion.
        revision: u64,
    },
    /// Its condition does not hold, and it had no effect. Read, merge, write again.
    Conflict {
        /// The key's revision; 0 if there is no such key.
        revision: u64,
    },
    /// It was sent, no answer came, and the cluster does not remember it any more. Read the key, and decide by what it holds.
    Lapsed,
    /// It can never succeed, and had no effect.
    Refused {
        /// Why, for people.
        message: String,
    },
}

/// What a drain came to.
#[derive(Debug)]
pub struct Drained {
    /// How many writes it settled, and told the callback.
    pub settled: usize,
    /// How many still wait.
    pub waiting: usize,
    /// Why they wait; `None` if none do.
    pub stopped: Option<Error>,
}
