//! One handle that everyone counts up at once: every count that was acknowledged is in the sum.

use std::sync::Arc;

use anyhow::Result;
use helve_client::{Client, HandleOptions, HandleStore, HandleStoreExt, Handles, Resolved, Ttl};
use serde::{Deserialize, Serialize};
use tonic::async_trait;

use super::{Harm, Harmed, Met, Worker, Workload, worker::Tally};
use crate::promise;

pub(super) const NAME: &str = "hot-handle";

const ID: &str = "counter";

/// How far the counting has come, and which call counted last: no two writes write the same.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Count {
    sum: u64,
    by: String,
}

/// What the callers were told of their counts.
#[derive(Debug, Default)]
pub(super) struct HotHandle {
    counted: Arc<Tally>,
}

#[async_trait]
impl Workload for HotHandle {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn begin(&self, client: &Client) -> Result<()> {
        counters(client)
            .put(ID, &Count::default(), Ttl::Never)
            .await?;
        Ok(())
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let by = worker.fresh();
        let next = |count: Count| Count {
            sum: count.sum + 1,
            by: by.clone(),
        };
        let counted = counters(&worker.client()).update(ID, next).await;
        let met = worker.met(counted)?;
        if let Met::Done(gone) = &met {
            promise!(
                matches!(gone, Resolved::Live(_)),
                "the counter never ends, but was found {gone:?}"
            );
        }
        self.counted.note(&met);
        Ok(())
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let Count { sum, .. } = counters(client).get(ID).await?.unwrap_or_default();
        let (known, in_doubt) = (self.counted.done(), self.counted.unknown());
        let harm = if sum < known {
            Harm::Lost
        } else if sum > known + in_doubt {
            Harm::Doubled
        } else {
            return Ok(Vec::new());
        };
        let seen = format!(
            "the counter is at {sum}; {known} counts were acknowledged, {in_doubt} are in doubt"
        );
        Ok(vec![Harmed::new(harm, seen)])
    }
}

fn counters(client: &Client) -> Handles<Count> {
    client.handles(HandleOptions::shared("counters"))
}
