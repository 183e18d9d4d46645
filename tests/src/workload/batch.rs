//! Batches: writers store one value under all keys of a group, and readers never see two values in a group. Half of the batches are
//! transactions, over handles besides.

use anyhow::Result;
use helve_client::{Client, HandleOptions, Handles, KeyOptions, Keys, StateTool, Ttl};
use rand::RngExt as _;
use serde_json::{Value, json};
use tonic::async_trait;

use super::{Harm, Harmed, Met, Worker, Workload};
use crate::promise;

pub(super) const NAME: &str = "batch";

const GROUPS: u64 = 2;
const KEYS: u64 = 8;

/// Keeps no account: what may be seen follows from what is seen with it.
#[derive(Debug, Default)]
pub(super) struct Batch;

#[async_trait]
impl Workload for Batch {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let client = worker.client();
        let group = worker.below(GROUPS);
        let value = json!(worker.fresh());
        if worker.rng().random() {
            let values = keys(&client).batch_retrieve(&names(group)).await;
            if let Met::Done(values) = worker.met(values)? {
                promise!(is_whole(&values), "half of a batch was read: {values:?}");
            }
            return Ok(());
        }
        if worker.rng().random() {
            let items: Vec<_> = names(group)
                .into_iter()
                .map(|name| (name, value.clone()))
                .collect();
            let stored = keys(&client).batch_store(&items).await;
            return worker.met(stored).map(drop);
        }
        let (keys, handles) = (keys(&client), handles(&client));
        let mut transaction = client.transaction();
        for name in names(group) {
            transaction = transaction.put(&handles, &name, &value, Ttl::Never).store(
                &keys,
                &name,
                &value,
                Ttl::Never,
            );
        }
        worker.met(transaction.commit().await).map(drop)
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let mut harmed = Vec::new();
        for group in 0..GROUPS {
            let values = keys(client).batch_retrieve(&names(group)).await?;
            if !is_whole(&values) {
                let seen = format!("half of a batch is there at the end: {values:?}");
                harmed.push(Harmed::new(Harm::Wrong, seen));
            }
        }
        Ok(harmed)
    }
}

fn is_whole(values: &[Option<Value>]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

fn names(group: u64) -> Vec<String> {
    (0..KEYS)
        .map(|key| format!("batch/{group}/{key}"))
        .collect()
}

fn keys(client: &Client) -> Keys {
    client.keys(KeyOptions::shared())
}

fn handles(client: &Client) -> Handles<Value> {
    client.handles(HandleOptions::shared("batches"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_in_a_group_are_half_of_a_batch() {
        assert!(is_whole(&[None, None]));
        assert!(is_whole(&[Some(json!("a")), Some(json!("a"))]));
        assert!(!is_whole(&[Some(json!("a")), None]));
        assert!(!is_whole(&[Some(json!("a")), Some(json!("b"))]));
    }
}
