//! What the recorder records.

use std::{future::pending, sync::Arc, time::Duration};

use futures::FutureExt as _;
use helve_client::{
    Backend, Client, Error, HandleOptions, HandleStore, HandleStoreExt, KeyOptions, MemoryBuilder,
    StateTool, StoreOutcome, Ttl,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, exchange_answer::Answer,
        exchange_call::Call,
    },
};
use tonic::async_trait;

use super::{Effect, History, Outcome, Reply, Request};

#[tokio::test]
async fn every_call_through_the_client_crate_is_recorded_as_it_was_answered() {
    let history = Arc::new(History::new());
    let client = MemoryBuilder::new().build().unwrap();
    let client = history.record(client, 7, "memory");
    let handles = client.handles::<u64>(HandleOptions::shared("numbers"));
    let id = handles
        .mint(&1, Ttl::After(Duration::from_secs(60)))
        .await
        .unwrap();
    handles.update(&id, |number| number + 1).await.unwrap();
    handles.list().await.unwrap();
    let keys = client.keys(KeyOptions::shared());
    let conflict = keys
        .store_if("key", &serde_json::json!(1), Ttl::Never, 9)
        .await;
    assert_eq!(conflict.unwrap(), StoreOutcome::Conflict { revision: 0 });

    let events = history.events();
    assert!(
        events
            .iter()
            .all(|event| event.client == 7 && event.returned_ns.is_some())
    );
    assert!(events.is_sorted_by_key(|event| event.invoked_ns));
    let Outcome::Answered(Reply::Answer(Answer::Mint(minted))) = &events[0].outcome else {
        panic!("{:?}", events[0]);
    };
    assert_eq!(minted.info.as_ref().unwrap().name, id);
    assert!(
        events
            .iter()
            .any(|event| matches!(&event.request, Request::Call(Call::Put(put)) if put.id == id))
    );
    assert!(
        events
            .iter()
            .any(|event| matches!(&event.outcome, Outcome::Answered(Reply::Handles(_))))
    );
    assert_eq!(events.last().unwrap().effect(), Effect::Denied);
}

/// Takes every call, and never answers.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Backend for Silent {
    async fn call(&self, _: Call, _: Duration) -> Result<Answer, Error> {
        pending().await
    }

    async fn list_handles(&self, _: ListRequest, _: Duration) -> Result<Vec<ListReply>, Error> {
        pending().await
    }

    async fn list_keys(
        &self,
        _: ListKeysRequest,
        _: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        pending().await
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn close(&self) {}
}

#[test]
fn a_call_that_its_caller_gave_up_stays_open_and_in_doubt() {
    let history = Arc::new(History::new());
    let client = history.record(Client::new(Arc::new(Silent)), 1, "nowhere");
    let handles = client.handles::<u64>(HandleOptions::shared("numbers"));
    assert!(handles.mint(&1, Ttl::Default).now_or_never().is_none());
    let events = history.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].outcome, Outcome::Open);
    assert_eq!(events[0].effect(), Effect::Unknown);
    assert_eq!(events[0].returned_ns, None);
}
