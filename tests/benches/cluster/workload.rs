//! What callers do, one operation after the other, each through the next node.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use helve_proto::v1::{
    GetReply, GetRequest, HandleStatus, MintRequest, Operation, PutRequest, StoreOperation,
    TakeOperation, TransactRequest, operation::Operation as Kind, transact_reply::Result as Part,
};
use helve_tests::caller::Caller;

const STORE: &str = "bench";
/// Handles that the reads go to.
const HANDLES: usize = 1000;
/// Lines put into each cart.
const LINES: usize = 3;

/// What to measure.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Workload {
    /// Mint a handle.
    Mint,
    /// Get a handle's value: linearizable, through any node.
    Get,
    /// Mint a cart, three times get it and put it back, get it, and check it out in one transaction; each is an operation.
    Cart,
}

/// The nodes in turn.
pub(crate) struct Turn {
    nodes: Vec<Caller>,
    next: usize,
}

impl Turn {
    pub(crate) fn new(nodes: Vec<Caller>, first: usize) -> Self {
        Self { nodes, next: first }
    }

    fn next(&mut self) -> Caller {
        self.next += 1;
        self.nodes[self.next % self.nodes.len()].clone()
    }
}

/// One caller: its turns, and how long each operation took, in microseconds.
struct Run<'a> {
    turn: Turn,
    value: &'a [u8],
    latencies_us: Histogram<u64>,
}

impl Workload {
    /// Mints what the reads need; gives their ids.
    pub(crate) async fn prepare(self, caller: &Caller, value: &[u8]) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        if matches!(self, Self::Get) {
            for _ in 0..HANDLES {
                ids.push(
                    caller
                        .mint(mint(value))
                        .await?
                        .info
                        .context("a minted handle has an id")?
                        .name,
                );
            }
        }
        Ok(ids)
    }

    /// Goes on until `end`.
    pub(crate) async fn run(
        self,
        turn: Turn,
        value: &[u8],
        ids: &[String],
        end: Instant,
    ) -> Result<Histogram<u64>> {
        let mut run = Run {
            turn,
            value,
            latencies_us: Histogram::new(3)?,
        };
        while Instant::now() < end {
            match self {
                Self::Mint => drop(run.mint().await?),
                Self::Get => {
                    let id = &ids[run.turn.next % ids.len()];
                    run.get(id).await?;
                }
                Self::Cart => run.cart().await?,
            }
        }
        Ok(run.latencies_us)
    }
}

fn mint(value: &[u8]) -> MintRequest {
    MintRequest {
        store: STORE.to_owned(),
        value: value.to_vec().into(),
        ..MintRequest::default()
    }
}

impl Run<'_> {
    async fn timed<T>(
        &mut self,
        call: impl AsyncFnOnce(Caller) -> Result<T, tonic::Status>,
    ) -> Result<T> {
        let caller = self.turn.next();
        let begun = Instant::now();
        let reply = call(caller).await?;
        self.latencies_us
            .record(u64::try_from(begun.elapsed().as_micros())?)?;
        Ok(reply)
    }

    async fn mint(&mut self) -> Result<String> {
        let request = mint(self.value);
        let reply = self
            .timed(async |caller| caller.mint(request).await)
            .await?;
        Ok(reply.info.context("a minted handle has an id")?.name)
    }

    async fn get(&mut self, id: &str) -> Result<GetReply> {
        let request = GetRequest {
            store: STORE.to_owned(),
            id: id.to_owned(),
            ..GetRequest::default()
        };
        let reply = self.timed(async |caller| caller.get(request).await).await?;
        ensure!(
            reply.status() == HandleStatus::Live,
            "{id} is lost: {reply:?}"
        );
        Ok(reply)
    }

    async fn cart(&mut self) -> Result<()> {
        let id = self.mint().await?;
        for _ in 0..LINES {
            let cart = self.get(&id).await?;
            let request = PutRequest {
                store: STORE.to_owned(),
                id: id.clone(),
                if_revision: cart.info.map(|info| info.revision),
                value: cart.value,
                ..PutRequest::default()
            };
            self.timed(async |caller| caller.put(request).await).await?;
        }
        let cart = self.get(&id).await?;
        let revision = cart.info.map(|info| info.revision);
        let take = TakeOperation {
            store: STORE.to_owned(),
            id: id.clone(),
            if_revision: revision,
            ..TakeOperation::default()
        };
        let order = StoreOperation {
            key: format!("orders/{id}"),
            value: cart.value,
            ..StoreOperation::default()
        };
        let operations = [Kind::Take(take), Kind::Store(order)].map(|operation| Operation {
            operation: Some(operation),
        });
        let request = TransactRequest {
            identity: None,
            operations: operations.to_vec(),
        };
        let reply = self
            .timed(async |caller| caller.transact(request).await)
            .await?;
        ensure!(
            matches!(reply.result, Some(Part::Committed(_))),
            "{id} was not checked out: {reply:?}"
        );
        Ok(())
    }
}
