//! One caller, and how long each of its operations took.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use hdrhistogram::Histogram;

/// When operations begin.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    /// As soon as the one before has ended.
    Closed,
    /// At fixed times, whether or not those before have ended; what waits for a free caller has begun already.
    Open(Arc<Schedule>),
}

/// The times of an open loop.
#[derive(Debug)]
pub(crate) struct Schedule {
    begun: Instant,
    interval: Duration,
    next: AtomicU32,
}

impl Schedule {
    /// This many operations a second, from now on.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            begun: Instant::now(),
            interval: Duration::from_secs(1) / per_second.max(1),
            next: AtomicU32::new(0),
        }
    }

    /// The next operation's time, awaited.
    async fn due(&self) -> Instant {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.begun + self.interval * number;
        tokio::time::sleep_until(due.into()).await;
        due
    }
}

/// One caller, with what it calls by.
pub(crate) struct Caller<S> {
    pub(crate) session: S,
    pace: Pace,
    latencies_us: Histogram<u64>,
}

impl<S> Caller<S> {
    pub(crate) fn new(session: S) -> Result<Self> {
        Ok(Self {
            session,
            pace: Pace::Closed,
            latencies_us: Histogram::new(3)?,
        })
    }

    /// Forgets what was measured, and goes on at this pace.
    pub(crate) fn begin(&mut self, pace: Pace) {
        self.latencies_us.reset();
        self.pace = pace;
    }

    pub(crate) fn latencies_us(&self) -> &Histogram<u64> {
        &self.latencies_us
    }

    /// One operation, which is given the session.
    pub(crate) async fn timed<T>(
        &mut self,
        operation: impl AsyncFnOnce(&mut S) -> Result<T>,
    ) -> Result<T> {
        let begun = match &self.pace {
            Pace::Closed => Instant::now(),
            Pace::Open(schedule) => schedule.due().await,
        };
        let result = operation(&mut self.session).await?;
        let elapsed_us = begun.elapsed().as_micros();
        self.latencies_us.record(u64::try_from(elapsed_us)?)?;
        Ok(result)
    }
}
