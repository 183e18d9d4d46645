//! Versions and logs on a tool whose answers get lost.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use helve_client::{
    Error, ErrorKind, KeyOptions, Keys, Listing, MemoryBuilder, Record, StateTool, StoreOutcome,
    Ttl,
};
use helve_proto::v1::RecordInfo;
use serde_json::{Value, json};

use crate::{event_log::EventLog, versions::Versions};

/// Every write takes effect, and the answers to some of them, counted from 0, are lost.
struct Lossy {
    keys: Keys,
    is_lost: Box<dyn Fn(usize) -> bool + Send + Sync>,
    writes: AtomicUsize,
}

impl Lossy {
    fn new(is_lost: impl Fn(usize) -> bool + Send + Sync + 'static) -> Arc<Self> {
        let client = MemoryBuilder::new().build().unwrap();
        Arc::new(Self {
            keys: client.keys(KeyOptions::shared()),
            is_lost: Box::new(is_lost),
            writes: AtomicUsize::new(0),
        })
    }

    fn answer<O>(&self, outcome: O) -> Result<O, Error> {
        let write = self.writes.fetch_add(1, Ordering::Relaxed);
        assert!(write < 100_000, "a write is repeated without a pause");
        if (self.is_lost)(write) {
            return Err(Error::new(ErrorKind::Ambiguous, "the answer was lost"));
        }
        Ok(outcome)
    }
}

#[async_trait]
impl StateTool for Lossy {
    async fn store_record(&self, key: &str, value: &Value, ttl: Ttl) -> Result<RecordInfo, Error> {
        self.answer(self.keys.store_record(key, value, ttl).await?)
    }

    async fn store_if(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error> {
        self.answer(self.keys.store_if(key, value, ttl, revision).await?)
    }

    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
        self.keys.retrieve_record(key).await
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        self.keys.delete(key).await
    }

    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        self.keys.list_infos(prefix).await
    }

    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        self.keys.list_values(prefix).await
    }

    async fn exists(&self, key: &str) -> Result<bool, Error> {
        self.keys.exists(key).await
    }

    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
        self.keys.batch_store(items).await
    }

    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        self.keys.batch_retrieve(keys).await
    }

    fn close(&self) {
        self.keys.close();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_saved_or_appended_is_there_once_whichever_answers_are_lost() {
    for lost in 0..32_u32 {
        let is_lost = move |write| write < 5 && lost & (1_u32 << write) != 0;
        let versions = Versions::new(Lossy::new(is_lost), "a").unwrap();
        let number = versions.save(&json!("state")).await.unwrap();
        assert_eq!(versions.list().await.unwrap(), [number], "{lost:b}");
        let log = EventLog::new(Lossy::new(is_lost), "a").unwrap();
        let key = log.append(&json!("event")).await.unwrap();
        let replay = log.replay_since(0).await.unwrap();
        let events: Vec<_> = replay
            .events
            .iter()
            .map(|event| event.record.name())
            .collect();
        assert_eq!(events, [key], "{lost:b}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_of_a_chosen_number_is_saved_though_the_answer_to_its_claim_is_lost() {
    let versions = Versions::new(Lossy::new(|write| write == 0), "a").unwrap();
    let saved = versions.save_at(7, &json!("state")).await.unwrap();
    assert!(matches!(saved, StoreOutcome::Created(_)), "{saved:?}");
    assert_eq!(versions.list().await.unwrap(), [7]);
    assert_eq!(versions.save(&json!("next")).await.unwrap(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_never_answers_is_asked_with_pauses_until_the_deadline() {
    let tool = Lossy::new(|_| true);
    let log = EventLog::new(tool.clone(), "a").unwrap();
    let lost = log.append(&json!("event")).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unavailable, "no event was sent");
    let versions = Versions::new(tool.clone(), "a").unwrap();
    let lost = versions.save(&json!("state")).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unavailable, "no state was sent");
    let writes = tool.writes.load(Ordering::Relaxed);
    assert!(writes < 1000, "{writes} writes in ten seconds");
}
