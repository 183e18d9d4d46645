//! What one connection is doing, as its reader, its requests and its answers see it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::task::AtomicWaker;
use tokio::time::Instant;

use crate::{
    address::Address,
    pool::{Evict, Full, Place, Pool, Rank},
};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is open, and nothing has come.
    Opening,
    /// Part of a head has come.
    Head,
    /// It serves a request.
    Busy,
    /// It has served one, and is kept for the next.
    Idle,
}

#[derive(Debug)]
struct Now {
    phase: Phase,
    since: Instant,
    /// The answer has been handed to the transport, and may not have left it.
    is_answered: bool,
    /// The caller was still sending when its request had been answered.
    is_unread: bool,
    /// The caller does not take what is written to it.
    is_stalled: bool,
}

/// One connection.
pub(crate) struct ConnectionState {
    pub(crate) from: SocketAddr,
    now: Mutex<Now>,
    place: Place,
    place_lost: Arc<Bell>,
    answer_lost: Arc<Bell>,
}

/// Tells a connection's task of an eviction.
#[derive(Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    waker: AtomicWaker,
}

impl Bell {
    /// Whether it has rung; if not, wakes the task when it does.
    pub(crate) fn has_rung(&self, waker: &std::task::Waker) -> bool {
        self.waker.register(waker);
        self.rung.load(Ordering::Acquire)
    }
}

impl Evict for Bell {
    fn evict(&self) {
        self.rung.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl ConnectionState {
    /// A connection that has just been accepted.
    ///
    /// # Errors
    /// If there is no room for it.
    pub(crate) fn open(connections: &Arc<Pool>, from: SocketAddr) -> Result<Arc<Self>, Full> {
        let place_lost = Arc::<Bell>::default();
        let place = connections.enter(from.ip().into(), Arc::clone(&place_lost) as _);
        place.claim(1)?;
        place.wait(Rank::First);
        Ok(Arc::new(Self {
            from,
            now: Mutex::new(Now {
                phase: Phase::Opening,
                since: Instant::now(),
                is_answered: false,
                is_unread: false,
                is_stalled: false,
            }),
            place,
            place_lost,
            answer_lost: Arc::default(),
        }))
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn address(&self) -> Address {
        self.from.ip().into()
    }

    /// What it is doing, and since when.
    pub(crate) fn phase(&self) -> (Phase, Instant) {
        let now = self.now();
        (now.phase, now.since)
    }

    /// Bytes have come.
    pub(crate) fn read(&self) {
        let mut now = self.now();
        if matches!(now.phase, Phase::Opening | Phase::Idle) {
            // A TLS handshake and the first head have one time together.
            if now.phase == Phase::Idle {
                now.since = Instant::now();
                self.place.wait(Rank::First);
            }
            now.phase = Phase::Head;
        }
    }

    /// A whole head has come.
    pub(crate) fn begin(&self) {
        let mut now = self.now();
        (now.phase, now.since, now.is_answered) = (Phase::Busy, Instant::now(), false);
        self.place.work();
    }

    /// The answer has been handed to the transport.
    pub(crate) fn answered(&self) {
        self.now().is_answered = true;
    }

    /// The caller does not take what is written, or has just taken a part of it. While others need the place, it goes to them: the
    /// place of the caller that has taken nothing for longest first.
    pub(crate) fn stalled(&self) {
        let mut now = self.now();
        if now.phase == Phase::Busy {
            now.is_stalled = true;
            self.place.wait(Rank::Third);
        }
    }

    /// Whether the caller does not take what is written to it.
    pub(crate) fn is_stalled(&self) -> bool {
        self.now().is_stalled
    }

    /// The transport has nothing left to send.
    pub(crate) fn flushed(&self) {
        let mut now = self.now();
        if now.is_stalled {
            now.is_stalled = false;
            self.place.work();
        }
        if now.is_answered {
            (now.phase, now.since, now.is_answered) = (Phase::Idle, Instant::now(), false);
            self.place.wait(Rank::Second);
        }
    }

    /// The rest of a request's body is not read.
    pub(crate) fn unread(&self) {
        self.now().is_unread = true;
    }

    pub(crate) fn is_unread(&self) -> bool {
        self.now().is_unread
    }

    /// Rings when the connection's place goes to another.
    pub(crate) fn place_lost(&self) -> &Bell {
        &self.place_lost
    }

    /// Rings when the room of its answer goes to another.
    pub(crate) fn answer_lost(&self) -> &Arc<Bell> {
        &self.answer_lost
    }
}
