//! What one listener counts, for its operator.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use crate::{pool::Pool, shutdown::Shutdown};

/// A bound of a listener, by the name of its field in [`Bounds`](crate::Bounds).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Open connections of all callers.
    Connections,
    /// Open connections of one address.
    AddressConnections,
    /// Bytes of a head.
    HeadBytes,
    /// The time for a head.
    HeadTime,
    /// Bytes of one body.
    BodyBytes,
    /// The time for a body, or the least that must come of it.
    BodyTime,
    /// Bytes of all bodies.
    RequestBytes,
    /// Bytes of one address's bodies.
    AddressRequestBytes,
    /// Bytes of answers that wait.
    AnswerBytes,
    /// The least that a caller must take of an answer.
    AnswerProgress,
}

impl Bound {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Connections,
        Self::AddressConnections,
        Self::HeadBytes,
        Self::HeadTime,
        Self::BodyBytes,
        Self::BodyTime,
        Self::RequestBytes,
        Self::AddressRequestBytes,
        Self::AnswerBytes,
        Self::AnswerProgress,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::AddressConnections => "address_connections",
            Self::HeadBytes => "head_bytes",
            Self::HeadTime => "head_time",
            Self::BodyBytes => "body_bytes",
            Self::BodyTime => "body_time",
            Self::RequestBytes => "request_bytes",
            Self::AddressRequestBytes => "address_request_bytes",
            Self::AnswerBytes => "answer_bytes",
            Self::AnswerProgress => "answer_progress",
        }
    }
}

/// What one listener has done, and holds now. Clones are the same. Give it to one listener alone,
/// in its [`Port`](crate::Port).
#[derive(Debug, Clone, Default)]
pub struct Traffic(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    refused: [AtomicU64; Bound::ALL.len()],
    streams: AtomicI64,
    broken_off: AtomicU64,
    held: OnceLock<Held>,
}

#[derive(Debug)]
struct Held {
    connections: Arc<Pool>,
    requests: Arc<Pool>,
    answers: Arc<Pool>,
    shutdown: Shutdown,
}

/// Counts an answer that streams without an end, until it is dropped.
#[derive(Debug)]
pub(crate) struct Streaming(Arc<Counts>);

impl Traffic {
    /// From now on it says what these hold. The first listener counts.
    pub(crate) fn watch(
        &self,
        connections: &Arc<Pool>,
        requests: &Arc<Pool>,
        answers: &Arc<Pool>,
        shutdown: &Shutdown,
    ) {
        self.0.held.get_or_init(|| Held {
            connections: Arc::clone(connections),
            requests: Arc::clone(requests),
            answers: Arc::clone(answers),
            shutdown: shutdown.clone(),
        });
    }

    pub(crate) fn accepted_one(&self) {
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused_for(&self, bound: Bound) {
        self.0.refused[bound as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn broke_off(&self, connections: u64) {
        self.0.broken_off.fetch_add(connections, Ordering::Relaxed);
    }

    pub(crate) fn streaming(&self) -> Streaming {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
        Streaming(Arc::clone(&self.0))
    }

    fn used(&self, pool: impl Fn(&Held) -> &Arc<Pool>) -> u64 {
        let used = self.0.held.get().map_or(0, |held| pool(held).used());
        used.try_into().unwrap_or(u64::MAX)
    }

    /// Connections that were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// Connections, requests and answers that were refused or given up for this bound so far.
    #[must_use]
    pub fn refused(&self, bound: Bound) -> u64 {
        self.0.refused[bound as usize].load(Ordering::Relaxed)
    }

    /// Connections that requests were still under way on when the time to stop was over.
    #[must_use]
    pub fn broken_off(&self) -> u64 {
        self.0.broken_off.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.used(|held| &held.connections)
    }

    /// Bytes of bodies that are held.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.used(|held| &held.requests)
    }

    /// Bytes of answers that wait for callers who do not read them.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        self.used(|held| &held.answers)
    }

    /// Answers that stream without an end.
    #[must_use]
    pub fn streams(&self) -> u64 {
        let streams = self.0.streams.load(Ordering::Relaxed);
        u64::try_from(streams).unwrap_or(0)
    }

    /// Whether the listener has been asked to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        let held = self.0.held.get();
        held.is_some_and(|held| held.shutdown.is_begun())
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_has_a_count_and_a_name_of_its_own() {
        let traffic = Traffic::default();
        for (number, bound) in Bound::ALL.into_iter().enumerate() {
            (0..=number).for_each(|_| traffic.refused_for(bound));
        }
        let mut names = Vec::new();
        for (number, bound) in Bound::ALL.into_iter().enumerate() {
            assert_eq!(traffic.refused(bound), number as u64 + 1, "{bound:?}");
            names.push(bound.as_str());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Bound::ALL.len());
    }
}
