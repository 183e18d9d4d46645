//! Changed lists, told across replicas: a change that one replica is asked for reaches subscribers of every other.
//!
//! A change is a write to a key of the cluster; each replica looks at the keys' revisions, one question for all its subscribers.

use std::{collections::BTreeMap, time::Duration};

use helve_client::{Client, Error, KeyOptions, Keys, StateTool};
use rmcp::service::{SubscriptionContext, SubscriptionSendError};
use serde_json::Value;
use tokio::{sync::watch, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// The keys' prefix; after it comes the list's name.
const PREFIX: &str = "conformance/changes/";
/// How often a replica looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// What can change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum List {
    Tools,
    Prompts,
}

impl List {
    fn key(self) -> String {
        let name = match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
        };
        format!("{PREFIX}{name}")
    }
}

/// The revision of each list's key that has been seen.
type Revisions = BTreeMap<String, u64>;

/// Tells of changes, and hears of them.
#[derive(Clone)]
pub(crate) struct Changes {
    keys: Keys,
    seen: watch::Receiver<Revisions>,
}

impl Changes {
    /// Looks for changes until `shutdown` is cancelled.
    pub(crate) fn follow(client: &Client, shutdown: CancellationToken) -> Self {
        let keys = client.keys(KeyOptions::shared());
        let (sender, seen) = watch::channel(Revisions::new());
        tokio::spawn(shutdown.run_until_cancelled_owned(look(keys.clone(), sender)));
        Self { keys, seen }
    }

    /// Makes a change.
    pub(crate) async fn make(&self, list: List) -> Result<(), Error> {
        self.keys.store(&list.key(), &Value::Bool(true)).await
    }

    /// Passes changes on to one subscriber, until it or the server goes.
    pub(crate) async fn tell(&self, subscriber: &SubscriptionContext) {
        let mut seen = self.seen.clone();
        let mut told = seen.borrow_and_update().clone();
        loop {
            tokio::select! {
                () = subscriber.cancelled() => return,
                changed = seen.changed() => if changed.is_err() { return },
            }
            let now = seen.borrow_and_update().clone();
            if let Err(error) = notify(subscriber, &told, &now).await {
                tracing::debug!(%error, "a subscriber went away");
                return;
            }
            told = now;
        }
    }
}

/// Sends what the subscriber asked for: the sink drops the rest.
async fn notify(
    subscriber: &SubscriptionContext,
    told: &Revisions,
    now: &Revisions,
) -> Result<(), SubscriptionSendError> {
    let changed = |list: List| told.get(&list.key()) != now.get(&list.key());
    let accepted = subscriber.accepted();
    if changed(List::Tools) && accepted.tools_list_changed == Some(true) {
        subscriber.sink().notify_tool_list_changed().await?;
    }
    if changed(List::Prompts) && accepted.prompts_list_changed == Some(true) {
        subscriber.sink().notify_prompt_list_changed().await?;
    }
    Ok(())
}

/// Looks again and again. While the cluster cannot answer nothing is known to have changed.
async fn look(keys: Keys, sender: watch::Sender<Revisions>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !sender.is_closed() {
        ticks.tick().await;
        match keys.list_infos(PREFIX).await {
            Ok(listing) => {
                let items = listing.items.into_iter();
                let now: Revisions = items.map(|info| (info.name, info.revision)).collect();
                sender.send_if_modified(|seen| {
                    let modified = *seen != now;
                    *seen = now;
                    modified
                });
            }
            Err(error) => tracing::warn!(%error, "cannot look for changes"),
        }
    }
}
