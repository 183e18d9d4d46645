//! The callers, and what they saw.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::{join_all, try_join_all};
use hdrhistogram::Histogram;
use helve_client::{Client, Error, HandleOptions, HandleStore, Handles, Ttl};
use tokio::time::{Instant, sleep_until};

use super::{Args, Workload};

/// Handles that gets go to.
const HANDLES: usize = 1_024;
/// Callers that make them.
const PREPARERS: usize = 16;
/// Gets and puts of one cart.
const LINES: usize = 5;
/// The longest time that is told apart from longer ones.
const LATENCY_US_MAX: u64 = 600_000_000;

/// What was seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) latencies_us: Histogram<u64>,
    /// By the name of their kind.
    pub(super) errors: BTreeMap<String, u64>,
    /// One of them, for people.
    pub(super) last_error: Option<String>,
}

impl Default for Seen {
    fn default() -> Self {
        let latencies_us = Histogram::new_with_max(LATENCY_US_MAX, 3);
        Self {
            latencies_us: latencies_us.expect("the bounds are constants that fit"),
            errors: BTreeMap::new(),
            last_error: None,
        }
    }
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.latencies_us
            .add(&other.latencies_us)
            .expect("all have the same bounds");
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        if other.last_error.is_some() {
            self.last_error.clone_from(&other.last_error);
        }
    }
}

/// What all callers saw: since the last look, and before.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<(Seen, Seen)>);

impl Tally {
    fn note<T>(&self, begun: Instant, result: &Result<T, Error>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(_) => {
                let elapsed_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                seen.0.latencies_us.saturating_record(elapsed_us);
            }
            Err(error) => {
                let kind = format!("{:?}", error.kind());
                let kind = kind.split([' ', '{']).next().unwrap_or_default();
                *seen.0.errors.entry(kind.to_owned()).or_default() += 1;
                seen.0.last_error = Some(error.to_string());
            }
        }
    }

    /// What was seen since the last time.
    pub(super) fn take_recent(&self) -> Seen {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = std::mem::take(&mut seen.0);
        seen.1.add(&recent);
        recent
    }

    /// What was seen from the beginning.
    pub(super) fn all(&self) -> Seen {
        self.take_recent();
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.1.clone()
    }
}

/// What to do, and through which nodes.
pub(super) struct Load {
    workload: Workload,
    callers: usize,
    value: String,
    ttl: Ttl,
    /// Calls of an open loop.
    schedule: Option<Schedule>,
    nodes: Vec<Handles<String>>,
    next: AtomicUsize,
}

struct Schedule {
    interval: Duration,
    next: AtomicU32,
}

impl Load {
    pub(super) fn new(args: &Args, clients: Vec<Client>) -> Self {
        let store = |client: Client| client.handles(HandleOptions::shared(&args.store));
        let bytes = usize::try_from(args.value_bytes).unwrap_or(usize::MAX);
        let schedule = |rate: u32| Schedule {
            interval: Duration::from_secs(1) / rate,
            next: AtomicU32::new(0),
        };
        Self {
            workload: args.workload,
            callers: usize::try_from(args.callers).unwrap_or(usize::MAX),
            // The quotes of a JSON string are two of its bytes.
            value: "v".repeat(bytes - 2),
            ttl: Ttl::After(args.ttl),
            schedule: args.rate.map(schedule),
            nodes: clients.into_iter().map(store).collect(),
            next: AtomicUsize::new(0),
        }
    }

    fn node(&self) -> &Handles<String> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.nodes[next % self.nodes.len()]
    }

    /// Mints what is to be read.
    pub(super) async fn prepare(&self) -> Result<Vec<String>, Error> {
        let count = match self.workload {
            Workload::Get | Workload::Mixed => HANDLES,
            Workload::Mint | Workload::Cart => 0,
        };
        let preparers = (0..PREPARERS).map(async |_| {
            let mut ids = Vec::new();
            for _ in 0..count / PREPARERS {
                ids.push(self.node().mint(&self.value, self.ttl).await?);
            }
            Ok::<_, Error>(ids)
        });
        Ok(try_join_all(preparers).await?.concat())
    }

    /// All callers, until then.
    pub(super) async fn run(&self, prepared: &[String], tally: &Tally, end: Instant) {
        let caller = Caller {
            load: self,
            tally,
            begun: Instant::now(),
        };
        let callers = (0..self.callers).map(|number| caller.work(number, prepared, end));
        join_all(callers).await;
    }
}

/// What a caller works with.
struct Caller<'a> {
    load: &'a Load,
    tally: &'a Tally,
    begun: Instant,
}

impl Caller<'_> {
    async fn work(&self, number: usize, prepared: &[String], end: Instant) {
        let mut turn = number;
        while Instant::now() < end {
            turn += 1;
            // What failed is counted; the next turn starts over.
            let _counted = match (self.load.workload, turn % 10) {
                (Workload::Mint, _) | (Workload::Mixed, 9) => self.mint().await.map(drop),
                (Workload::Mixed, 8) => self.put(any(prepared, turn)).await,
                (Workload::Get | Workload::Mixed, _) => self.get(any(prepared, turn)).await,
                (Workload::Cart, _) => self.cart().await,
            };
        }
    }

    async fn cart(&self) -> Result<(), Error> {
        let id = self.mint().await?;
        for _ in 0..LINES {
            self.get(&id).await?;
            self.put(&id).await?;
        }
        let take = async |node: &Handles<String>| node.take(&id).await.map(drop);
        self.timed(take).await
    }

    async fn mint(&self) -> Result<String, Error> {
        let mint = async |node: &Handles<String>| node.mint(&self.load.value, self.load.ttl).await;
        self.timed(mint).await
    }

    async fn get(&self, id: &str) -> Result<(), Error> {
        let get = async |node: &Handles<String>| node.get(id).await.map(drop);
        self.timed(get).await
    }

    async fn put(&self, id: &str) -> Result<(), Error> {
        let put = async |node: &Handles<String>| node.put(id, &self.load.value, Ttl::Keep).await;
        self.timed(put).await.map(drop)
    }

    async fn timed<T>(
        &self,
        call: impl AsyncFnOnce(&Handles<String>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let begun = match &self.load.schedule {
            None => Instant::now(),
            Some(schedule) => {
                let number = schedule.next.fetch_add(1, Ordering::Relaxed);
                let due = self.begun + schedule.interval * number;
                sleep_until(due).await;
                due
            }
        };
        let result = call(self.load.node()).await;
        self.tally.note(begun, &result);
        result
    }
}

/// Spread over all, by steps that share no factor with their number.
fn any(prepared: &[String], turn: usize) -> &str {
    &prepared[turn.wrapping_mul(7_919) % prepared.len()]
}
