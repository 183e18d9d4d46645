//! MCP clients that run flow after flow until they are asked to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use data_encoding::HEXLOWER;
use helve_command::ending::Ending;
use helve_mcp::flow::{Accounts, Caller, Flow, Ledger};
use helve_node::stamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What is run.
pub(super) struct Load<'a> {
    pub(super) url: &'a str,
    /// Largest number of flows.
    pub(super) flows: u64,
    /// Number at a time.
    pub(super) clients: u64,
    /// The rest between two flows of a client.
    pub(super) pause: Duration,
    /// How long a call is made again before its flow is given up.
    pub(super) patience: Duration,
}

/// What the clients were told.
pub(super) struct ClientResults {
    pub(super) accounts: Accounts,
    /// How often a call was made again.
    pub(super) retries: u64,
}

/// The clients at work.
pub(super) struct Clients {
    working: JoinSet<()>,
    shared: Arc<Shared>,
}

/// What the clients have in common.
struct Shared {
    run: Arc<str>,
    flows: u64,
    pause: Duration,
    ledger: Ledger,
    retries: Arc<AtomicU64>,
    next: AtomicU64,
    ended: AtomicU64,
    /// Cancelled when no flow is to begin any more.
    stop: CancellationToken,
    /// Cancelled when all flows were begun, and a client found none left.
    all_run: CancellationToken,
}

impl Clients {
    /// Starts them.
    ///
    /// # Errors
    /// If the operating system gives no randomness: runs that share a store must not share names.
    pub(super) fn start(load: &Load<'_>) -> Result<Self, Ending> {
        let run = stamp::request_id().map_err(|error| Ending::Fatal(error.into()))?;
        let shared = Arc::new(Shared {
            run: format!("flows-{}", HEXLOWER.encode(&run)).into(),
            flows: load.flows,
            pause: load.pause,
            ledger: Ledger::in_memory(),
            retries: Arc::default(),
            next: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            stop: CancellationToken::new(),
            all_run: CancellationToken::new(),
        });
        let mut working = JoinSet::new();
        for _ in 0..load.clients {
            let caller = Caller::new(load.url, load.patience, Arc::clone(&shared.retries));
            working.spawn(Arc::clone(&shared).work(caller));
        }
        Ok(Self { working, shared })
    }

    /// Flows that have ended, and calls that were made again.
    pub(super) fn counts(&self) -> (u64, u64) {
        let Shared { ended, retries, .. } = &*self.shared;
        (
            ended.load(Ordering::Relaxed),
            retries.load(Ordering::Relaxed),
        )
    }

    /// Waits until no flow is left to begin.
    pub(super) async fn all_run(&self) {
        self.shared.all_run.cancelled().await;
    }

    /// Lets the flows that have begun end, and returns what all clients were told.
    ///
    /// # Errors
    /// If a client panicked.
    pub(super) async fn finish(mut self) -> anyhow::Result<ClientResults> {
        self.shared.stop.cancel();
        while let Some(ended) = self.working.join_next().await {
            ended?;
        }
        Ok(ClientResults {
            accounts: self.shared.ledger.accounts()?,
            retries: self.shared.retries.load(Ordering::Relaxed),
        })
    }
}

impl Shared {
    async fn work(self: Arc<Self>, mut caller: Caller) {
        while !self.stop.is_cancelled() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.flows {
                self.all_run.cancel();
                return;
            }
            Flow::mixed(number, &self.run)
                .run(&mut caller, &self.ledger)
                .await;
            self.ended.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                () = tokio::time::sleep(self.pause) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }
}
