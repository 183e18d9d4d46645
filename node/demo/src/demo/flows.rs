//! The MCP flows: many clients at once, some of them held with open carts until a fault has struck.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use helve_mcp::flow::{Caller, Flow, Gate, Ledger};
use indicatif::ProgressBar;
use tokio::task::JoinSet;

/// How many MCP clients run flows at the same time.
const CLIENTS: u64 = 16;
/// How long a client calls again before it gives a flow up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of eight flows, this one waits for the leader's death, and the next for the replica's.
const HELD_OF: u64 = 8;

/// The faults that flows wait for.
#[derive(Debug, Clone, Default)]
pub(super) struct Gates {
    /// Opened once the leader is dead.
    pub(super) leader: Arc<Gate>,
    /// Opened once the replica is dead.
    pub(super) replica: Arc<Gate>,
}

/// The flows under way.
pub(super) struct Flows {
    clients: JoinSet<()>,
    ledger: Arc<Ledger>,
    retries: Arc<AtomicU64>,
}

impl Flows {
    /// Starts `count` flows at the MCP server at `uri`.
    pub(super) fn start(
        count: u64,
        uri: &str,
        gates: &Gates,
        ledger_file: &Path,
        progress: &ProgressBar,
    ) -> std::io::Result<Self> {
        let ledger = Arc::new(Ledger::create(ledger_file)?);
        let retries = Arc::new(AtomicU64::new(0));
        let next = Arc::new(AtomicU64::new(0));
        let run: Arc<str> = Arc::from(format!("demo-{}", std::process::id()));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS.min(count) {
            let mut caller = Caller::new(uri, PATIENCE, Arc::clone(&retries));
            let (ledger, next, run) = (Arc::clone(&ledger), Arc::clone(&next), Arc::clone(&run));
            let (gates, progress) = (gates.clone(), progress.clone());
            clients.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let mut flow = Flow::mixed(number, &run);
                    flow.gate = held_at(number, &gates);
                    flow.run(&mut caller, &ledger).await;
                    progress.inc(1);
                }
            });
        }
        Ok(Self {
            clients,
            ledger,
            retries,
        })
    }

    /// Waits until all flows have ended, and returns the ledger and how often a client called again.
    pub(super) async fn finish(mut self) -> anyhow::Result<(Arc<Ledger>, u64)> {
        while let Some(ended) = self.clients.join_next().await {
            ended?;
        }
        Ok((self.ledger, self.retries.load(Ordering::Relaxed)))
    }
}

/// How many of `count` flows are sure to be held for the leader's and for the replica's death: enough of the clients stay
/// free that these many come to their gates.
pub(super) fn crowds(count: u64) -> (usize, usize) {
    let early = count.min(CLIENTS * 3);
    let held = |rest: u64| (0..early).filter(|number| number % HELD_OF == rest).count();
    (held(0), held(1))
}

fn held_at(number: u64, gates: &Gates) -> Option<Arc<Gate>> {
    match number % HELD_OF {
        0 => Some(Arc::clone(&gates.leader)),
        1 => Some(Arc::clone(&gates.replica)),
        _ => None,
    }
}
