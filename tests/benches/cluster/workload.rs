//! What callers do, one operation after the other.

use std::{cell::Cell, time::Duration};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use futures::future::try_join_all;
use serde::Serialize;

use crate::{
    measure::{caller, chance::below},
    product::{Found, Running, Session},
};

/// Handles that gets go to.
const HANDLES: usize = 1000;
/// Steps of a cart: each a get and a put.
const LINES: usize = 5;
/// Keys of one batch.
const BATCH: usize = 16;
/// Keys that a list answers.
const LISTED: usize = 1000;
/// How long what is minted with a lifetime lives.
const TTL: Duration = Duration::from_secs(3600);
/// The same where expiry shall run while the workload does.
const BRIEF_TTL: Duration = Duration::from_secs(3);
/// Callers that prepare what a workload needs.
const PREPARERS: usize = 64;
/// How much is prepared from one word on that to the next.
const TOLD_EVERY: usize = 100_000;

/// What to measure. The numbers are those of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// W1: mint a handle; for rivals a plain put under a new key.
    Mint,
    /// W1c: the same, for rivals only if there is no such key.
    Create,
    /// W1t: mint with a lifetime; for etcd a lease and a put.
    MintTtl,
    /// W2: get a handle's value through any node.
    Get,
    /// W3: mint, five times get and put, get, take; each step through another node, each an operation.
    Cart,
    /// W3c: the same with a compare at each put.
    CartCompare,
    /// W4: store 16 keys in one call, retrieve them in another; each an operation.
    Batch,
    /// W5: list 1,000 keys.
    List,
    /// W6: four gets to one write among many live handles, while handles expire.
    Mixed,
    /// W7: all callers update one handle: read, and replace if no other was faster, until it
    /// succeeds.
    Hot,
}

impl Workload {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mint => "W1 mint",
            Self::Create => "W1c create-if-absent",
            Self::MintTtl => "W1t mint with a TTL",
            Self::Get => "W2 get through any node",
            Self::Cart => "W3 cart flow",
            Self::CartCompare => "W3c cart flow with compare",
            Self::Batch => "W4 batches of 16",
            Self::List => "W5 list of 1,000 keys",
            Self::Mixed => "W6 mixed 80/20 with expiry",
            Self::Hot => "W7 one hot handle",
        }
    }
}

/// One caller, and what it calls a product by.
pub(crate) type Caller = caller::Caller<Work>;

/// What one caller works with.
pub(crate) struct Work {
    /// Among all callers.
    pub(crate) number: usize,
    pub(crate) session: Box<dyn Session>,
    /// What it writes.
    pub(crate) value: String,
}

/// Writes what a workload needs to be there, and returns its ids or keys. `live` is how many handles the mixed one works among.
pub(crate) async fn prepare(
    workload: Workload,
    product: &dyn Running,
    value: &str,
    live: usize,
) -> Result<Vec<String>> {
    let count = match workload {
        Workload::Get => HANDLES,
        Workload::Mixed => live,
        Workload::Hot => 1,
        Workload::List => return listed(product, value).await,
        _ => 0,
    };
    let there = Cell::new(0_usize);
    let preparers = (0..PREPARERS.min(count)).map(async |preparer| {
        let mut session = product.session(preparer).await?;
        let mut ids = Vec::new();
        for _ in (preparer..count).step_by(PREPARERS) {
            ids.push(session.mint(value).await?);
            there.update(|there| there + 1);
            if there.get().is_multiple_of(TOLD_EVERY) {
                eprintln!("{}: {} of {count} are there", workload.title(), there.get());
            }
        }
        anyhow::Ok(ids)
    });
    Ok(try_join_all(preparers).await?.concat())
}

async fn listed(product: &dyn Running, value: &str) -> Result<Vec<String>> {
    let mut session = product.session(0).await?;
    let keys: Vec<String> = (0..LISTED).map(|key| format!("listed/{key:04}")).collect();
    for batch in keys.chunks(BATCH) {
        let item = |key: &String| (key.clone(), value.to_owned());
        let items: Vec<_> = batch.iter().map(item).collect();
        session.store_batch(&items).await?;
    }
    Ok(keys)
}

impl Workload {
    /// One turn: an operation, or a flow of them.
    pub(crate) async fn turn(self, caller: &mut Caller, prepared: &[String]) -> Result<()> {
        match self {
            Self::Mint => caller
                .timed(async |w| w.session.mint(&w.value).await)
                .await
                .map(drop),
            Self::Create => caller
                .timed(async |w| w.session.create(&w.value).await)
                .await
                .map(drop),
            Self::MintTtl => mint_with_ttl(caller, TTL).await,
            Self::Get => get(caller, any(prepared)).await.map(drop),
            Self::Cart => {
                cart(caller, async |caller, id, _| {
                    caller
                        .timed(async |w| w.session.put(id, &w.value).await)
                        .await
                })
                .await
            }
            Self::CartCompare => {
                cart(caller, async |caller, id, found| {
                    let replaced =
                        caller.timed(async |w| w.session.put_if(id, found, &w.value).await);
                    ensure!(replaced.await?, "{id} was changed by somebody else");
                    Ok(())
                })
                .await
            }
            Self::Batch => batch(caller).await,
            Self::List => list(caller).await,
            Self::Mixed => mixed(caller, prepared).await,
            Self::Hot => hot(caller, any(prepared)).await,
        }
    }
}

fn any(prepared: &[String]) -> &str {
    &prepared[below(prepared.len())]
}

async fn mint_with_ttl(caller: &mut Caller, ttl: Duration) -> Result<()> {
    let minted = caller.timed(async |w| w.session.mint_with_ttl(&w.value, ttl).await);
    minted.await.map(drop)
}

async fn get(caller: &mut Caller, id: &str) -> Result<Found> {
    caller.timed(async |w| w.session.get(id).await).await
}

async fn cart(
    caller: &mut Caller,
    put: impl AsyncFn(&mut Caller, &str, &Found) -> Result<()>,
) -> Result<()> {
    let id = caller
        .timed(async |w| w.session.mint(&w.value).await)
        .await?;
    for _ in 0..LINES {
        let found = get(caller, &id).await?;
        put(caller, &id, &found).await?;
    }
    get(caller, &id).await?;
    caller.timed(async |w| w.session.take(&id).await).await
}

async fn batch(caller: &mut Caller) -> Result<()> {
    let first = caller.session.number * BATCH;
    let keys: Vec<String> = (first..first + BATCH)
        .map(|key| format!("batch/{key}"))
        .collect();
    caller
        .timed(async |w| {
            let item = |key: &String| (key.clone(), w.value.clone());
            let items: Vec<_> = keys.iter().map(item).collect();
            w.session.store_batch(&items).await
        })
        .await?;
    caller
        .timed(async |w| w.session.retrieve_batch(&keys).await)
        .await
}

async fn list(caller: &mut Caller) -> Result<()> {
    let count = caller
        .timed(async |w| w.session.list("listed/").await)
        .await?;
    ensure!(count == LISTED, "{count} keys are listed");
    Ok(())
}

async fn mixed(caller: &mut Caller, prepared: &[String]) -> Result<()> {
    match below(10) {
        0..8 => get(caller, any(prepared)).await.map(drop),
        8 => {
            let id = any(prepared);
            caller
                .timed(async |w| w.session.put(id, &w.value).await)
                .await
        }
        _ => mint_with_ttl(caller, BRIEF_TTL).await,
    }
}

/// The whole update is one operation, however many rounds it takes.
async fn hot(caller: &mut Caller, id: &str) -> Result<()> {
    caller
        .timed(async |w| {
            loop {
                let found = w.session.get(id).await?;
                // A compare of values must see that it was written.
                let value = format!("{:016x}{}", below(usize::MAX), &w.value[16..]);
                if w.session.put_if(id, &found, &value).await? {
                    return Ok(());
                }
            }
        })
        .await
}
