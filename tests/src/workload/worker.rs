//! A caller: it makes calls at its pace, through whichever client it draws, until the run stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use helve_client::{Client, Error, ErrorKind};
use rand::{RngExt as _, rngs::SmallRng, seq::IndexedRandom as _};
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval},
};

use crate::promise;

/// What the calls of one workload came to.
#[derive(Debug, Default)]
pub struct Tally {
    done: AtomicU64,
    not_done: AtomicU64,
    unknown: AtomicU64,
}

impl Tally {
    /// Calls that were answered.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Calls that certainly had no effect: refused for now, overtaken by others, or out of time before they were sent.
    #[must_use]
    pub fn not_done(&self) -> u64 {
        self.not_done.load(Ordering::Relaxed)
    }

    /// Calls that may or may not have taken effect.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    /// Counts one more.
    pub fn note<T>(&self, met: &Met<T>) {
        let count = match met {
            Met::Done(_) => &self.done,
            Met::NotDone => &self.not_done,
            Met::Unknown => &self.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a call came to.
#[derive(Debug)]
pub enum Met<T> {
    /// It was answered.
    Done(T),
    /// It had no effect, for certain.
    NotDone,
    /// It may have taken effect.
    Unknown,
}

/// One caller of a workload.
pub struct Worker {
    clients: Arc<[Client]>,
    number: u64,
    written: u64,
    rng: SmallRng,
    pace: Interval,
    stop: watch::Receiver<bool>,
    tally: Arc<Tally>,
}

impl Worker {
    /// A caller with a number of its own among all of a run. It makes one turn each `pause` at most, until `stop` turns true.
    #[must_use]
    pub fn new(
        clients: Arc<[Client]>,
        number: u64,
        rng: SmallRng,
        pause: Duration,
        stop: watch::Receiver<bool>,
        tally: Arc<Tally>,
    ) -> Self {
        let mut pace = interval(pause);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            clients,
            number,
            written: 0,
            rng,
            pace,
            stop,
            tally,
        }
    }

    /// Waits for its next turn; false when the run stops.
    pub async fn goes_on(&mut self) -> bool {
        tokio::select! {
            biased;
            // A run that is gone has stopped as well.
            _stopped = self.stop.wait_for(|stopped| *stopped) => false,
            _tick = self.pace.tick() => true,
        }
    }

    /// Any of the clients, drawn each time: what one minted, another must find.
    pub fn client(&mut self) -> Client {
        let drawn = self.clients.choose(&mut self.rng);
        drawn.expect("a run has clients").clone()
    }

    /// An end user; several callers act for each.
    #[must_use]
    pub fn user(&self) -> String {
        format!("user-{}", self.number % 3)
    }

    /// A value that no other client writes.
    pub fn fresh(&mut self) -> String {
        self.written += 1;
        format!("w{}-{}", self.number, self.written)
    }

    /// The source of all that is drawn.
    pub fn rng(&mut self) -> &mut SmallRng {
        &mut self.rng
    }

    /// A number below `count`, which is not 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.rng.random_range(0..count)
    }

    /// Sorts and counts what a call came to. Calls may fail while nodes are broken, but only in ways that say "not now".
    ///
    /// # Errors
    ///
    /// [`promise::Broken`] for errors that no fault excuses.
    pub fn met<T>(&self, result: Result<T, Error>) -> Result<Met<T>> {
        let met = match result {
            Ok(answer) => Met::Done(answer),
            Err(error) => match error.kind() {
                ErrorKind::Ambiguous => Met::Unknown,
                ErrorKind::Unavailable
                | ErrorKind::Overloaded
                | ErrorKind::Full
                | ErrorKind::Conflict { .. }
                | ErrorKind::Forgotten
                | ErrorKind::Lapsed => Met::NotDone,
                kind => {
                    promise!(false, "a call failed with {kind:?}: {error}");
                    Met::NotDone
                }
            },
        };
        self.tally.note(&met);
        Ok(met)
    }
}
