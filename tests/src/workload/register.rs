//! Registers: a few keys and handles that everyone reads, writes, deletes, and writes on a condition.

use anyhow::Result;
use helve_client::{Client, HandleOptions, HandleStore, Handles, KeyOptions, Keys, StateTool, Ttl};
use rand::RngExt as _;
use serde_json::json;
use tonic::async_trait;

use super::{Harmed, Worker, Workload};

pub(super) const NAME: &str = "register";

/// Few enough for callers to meet, enough to judge each by itself.
const REGISTERS: u64 = 4;

/// Keeps no account of its own: the judge's is the account.
#[derive(Debug, Default)]
pub(super) struct Register;

#[async_trait]
impl Workload for Register {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let name = format!("register/{}", worker.below(REGISTERS));
        if worker.rng().random() {
            key(worker, &name).await
        } else {
            handle(worker, &name).await
        }
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        for register in 0..REGISTERS {
            let name = format!("register/{register}");
            keys(client).retrieve(&name).await?;
            handles(client).resolve(&name).await?;
        }
        Ok(Vec::new())
    }
}

async fn key(worker: &mut Worker, name: &str) -> Result<()> {
    let keys = keys(&worker.client());
    let value = json!(worker.fresh());
    match worker.below(12) {
        0..=4 => worker.met(keys.retrieve(name).await).map(drop),
        5..=7 => worker.met(keys.store(name, &value).await).map(drop),
        8 => worker.met(keys.delete(name).await).map(drop),
        9 => worker.met(keys.exists(name).await).map(drop),
        _ => {
            let read = keys.retrieve_record(name).await;
            let super::Met::Done(found) = worker.met(read)? else {
                return Ok(());
            };
            let revision = found.map_or(0, |record| record.revision());
            let stored = keys.store_if(name, &value, Ttl::Never, revision).await;
            worker.met(stored).map(drop)
        }
    }
}

async fn handle(worker: &mut Worker, name: &str) -> Result<()> {
    let handles = handles(&worker.client());
    let value = worker.fresh();
    match worker.below(12) {
        0..=4 => worker.met(handles.get(name).await).map(drop),
        5..=7 => worker
            .met(handles.put(name, &value, Ttl::Never).await)
            .map(drop),
        8 => worker.met(handles.delete(name).await).map(drop),
        9 => worker.met(handles.len().await).map(drop),
        _ => {
            let read = handles.resolve(name).await;
            let super::Met::Done(found) = worker.met(read)? else {
                return Ok(());
            };
            let revision = found.live().map_or(0, |record| record.revision());
            let put = handles.put_if(name, &value, Ttl::Never, revision).await;
            worker.met(put).map(drop)
        }
    }
}

fn keys(client: &Client) -> Keys {
    client.keys(KeyOptions::shared())
}

fn handles(client: &Client) -> Handles<String> {
    client.handles(HandleOptions::shared("registers"))
}
