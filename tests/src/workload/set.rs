//! A set: everyone adds elements, as handles and as keys, and lists them now and then. Each element that was acknowledged is there
//! at the end, once.

use anyhow::Result;
use helve_client::{Client, HandleOptions, HandleStore, Handles, KeyOptions, Keys, StateTool, Ttl};
use serde_json::json;
use tonic::async_trait;

use super::{Harmed, Worker, Workload, acknowledged::Acknowledged};

pub(super) const NAME: &str = "set";

const PREFIX: &str = "set/";
/// One turn in this many lists; lists grow long.
const LISTS: u64 = 12;

/// What was added.
#[derive(Debug, Default)]
pub(super) struct Set {
    handles: Acknowledged,
    keys: Acknowledged,
}

#[async_trait]
impl Workload for Set {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let client = worker.client();
        let element = worker.fresh();
        match worker.below(LISTS) {
            0 => worker.met(members(&client).list_values().await).map(drop),
            1 => worker
                .met(keys(&client).list_values(PREFIX).await)
                .map(drop),
            turn if turn % 2 == 0 => {
                let minted = members(&client).mint(&element, Ttl::Never).await;
                let met = worker.met(minted)?;
                self.handles.note(element, &met);
                Ok(())
            }
            _ => {
                let key = format!("{PREFIX}{element}");
                let met = worker.met(keys(&client).store(&key, &json!(element)).await)?;
                self.keys.note(key, &met);
                Ok(())
            }
        }
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let handles = members(client).list_values().await?.items;
        let found: Vec<_> = handles.into_iter().map(|record| record.value).collect();
        let mut harmed = self.handles.compare("the set of handles", &found);
        let found = keys(client).list(PREFIX).await?;
        harmed.extend(self.keys.compare("the set of keys", &found));
        Ok(harmed)
    }
}

fn members(client: &Client) -> Handles<String> {
    client.handles(HandleOptions::shared("members").id_prefix("member"))
}

fn keys(client: &Client) -> Keys {
    client.keys(KeyOptions::shared())
}
