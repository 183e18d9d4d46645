//! Many handles at once: transactions of as many operations as one may have, by several callers, through all nodes.

use std::{cell::Cell, ops::Range};

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use helve_client::{Committed, HandleOptions, Handles, Transacted, Transaction};

use crate::{handles::LIVE, nodes::Nodes};

/// Operations of a transaction.
pub(crate) const BATCH: u64 = 128;

/// What has been done so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) handles: Cell<u64>,
    /// When the first and the last of them expire, if they do, in milliseconds of the cluster's time.
    pub(crate) expire_ms: Cell<Option<(u64, u64)>>,
}

impl Tally {
    fn add(&self, count: u64, committed: &Committed) {
        self.handles.update(|handles| handles + count);
        // A transaction has one time: of all its handles, when they got the same lifetime.
        let expires_ms = committed.info(0).and_then(|info| info.expires_at_ms);
        if let Some(at_ms) = expires_ms {
            let (first, last) = self.expire_ms.get().unwrap_or((at_ms, at_ms));
            let both = (first.min(at_ms), last.max(at_ms));
            self.expire_ms.set(Some(both));
        }
    }
}

/// Does something with the handles of these numbers: `operations` adds it to a transaction for some of them, or says by `None` that no
/// more shall be done.
pub(crate) async fn transact(
    nodes: &Nodes,
    numbers: Range<u64>,
    callers: usize,
    tally: &Tally,
    operations: impl Fn(Transaction, &Handles<String>, Range<u64>) -> Option<Transaction>,
) -> Result<()> {
    let seats = nodes.cluster.running();
    let next = Cell::new(numbers.start);
    let runs = (0..callers).map(async |caller| {
        let through = seats.iter().cycle().skip(caller);
        for &seat in through {
            let first = next.get();
            if first >= numbers.end {
                break;
            }
            let end = (first + BATCH).min(numbers.end);
            next.set(end);
            if !commit(nodes, seat, first..end, tally, &operations).await? {
                break;
            }
        }
        anyhow::Ok(())
    });
    try_join_all(runs).await.map(drop)
}

/// Whether there was something to do.
async fn commit(
    nodes: &Nodes,
    seat: u64,
    numbers: Range<u64>,
    tally: &Tally,
    operations: &impl Fn(Transaction, &Handles<String>, Range<u64>) -> Option<Transaction>,
) -> Result<bool> {
    let count = numbers.end - numbers.start;
    let what = format!("handles {numbers:?} of the {} cluster", nodes.size.name());
    let client = nodes.client(seat);
    let handles = client.handles(HandleOptions::shared(LIVE));
    let Some(transaction) = operations(client.transaction(), &handles, numbers) else {
        return Ok(false);
    };
    match transaction.commit().await.with_context(|| what.clone())? {
        Transacted::Committed(committed) => tally.add(count, &committed),
        aborted @ Transacted::Aborted { .. } => bail!("{what}: {aborted:?}"),
    }
    Ok(true)
}
