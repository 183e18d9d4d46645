//! An audit trail: a state tool that says of every call who made it, on what, and what came of it.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use helve_client::{Error, Listing, Page, Promises, Record, StateTool, StoreOutcome, Ttl};
use helve_proto::v1::RecordInfo;
use serde_json::Value;

/// Another tool, each of whose calls leaves an event of `tracing` with the target `helve::audit` once it has ended: `actor`,
/// `operation`, `key` (of lists the prefix, of batches how many), and `outcome`, which is `ok` or the error's kind. Values are
/// never in it. A call whose future is dropped says `dropped`: it may have taken effect.
#[derive(Clone)]
pub struct Audited {
    tool: Arc<dyn StateTool>,
    actor: String,
}

/// One call under way.
struct Call<'a> {
    actor: &'a str,
    operation: &'static str,
    key: &'a str,
    ended: bool,
}

impl Call<'_> {
    fn end<O>(mut self, outcome: Result<O, Error>) -> Result<O, Error> {
        self.ended = true;
        match &outcome {
            Ok(_) => self.say("ok"),
            Err(error) => self.say(&format!("{:?}", error.kind())),
        }
        outcome
    }

    fn say(&self, outcome: &str) {
        let Self {
            actor,
            operation,
            key,
            ..
        } = *self;
        tracing::info!(target: "helve::audit", actor, operation, key, outcome);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.say("dropped");
        }
    }
}

impl Audited {
    /// What this tool does is done by `actor`.
    #[must_use]
    pub fn new(tool: Arc<dyn StateTool>, actor: impl Into<String>) -> Self {
        Self {
            tool,
            actor: actor.into(),
        }
    }

    fn begin<'a>(&'a self, operation: &'static str, key: &'a str) -> Call<'a> {
        Call {
            actor: &self.actor,
            operation,
            key,
            ended: false,
        }
    }
}

#[async_trait]
impl StateTool for Audited {
    async fn store_record(&self, key: &str, value: &Value, ttl: Ttl) -> Result<RecordInfo, Error> {
        let call = self.begin("store", key);
        call.end(self.tool.store_record(key, value, ttl).await)
    }

    async fn store_if(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error> {
        let call = self.begin("store_if", key);
        call.end(self.tool.store_if(key, value, ttl, revision).await)
    }

    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
        let call = self.begin("retrieve", key);
        call.end(self.tool.retrieve_record(key).await)
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        let call = self.begin("delete", key);
        call.end(self.tool.delete(key).await)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let call = self.begin("list", prefix);
        call.end(self.tool.list(prefix).await)
    }

    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let call = self.begin("list", prefix);
        call.end(self.tool.list_infos(prefix).await)
    }

    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        let call = self.begin("list_values", prefix);
        call.end(self.tool.list_values(prefix).await)
    }

    async fn list_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<RecordInfo>, Error> {
        let call = self.begin("list_page", prefix);
        call.end(self.tool.list_page(prefix, after, limit).await)
    }

    async fn list_values_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Record<Value>>, Error> {
        let call = self.begin("list_values_page", prefix);
        call.end(self.tool.list_values_page(prefix, after, limit).await)
    }

    async fn exists(&self, key: &str) -> Result<bool, Error> {
        let call = self.begin("exists", key);
        call.end(self.tool.exists(key).await)
    }

    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
        let keys = format!("{} keys", items.len());
        let call = self.begin("batch_store", &keys);
        call.end(self.tool.batch_store(items).await)
    }

    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        let count = format!("{} keys", keys.len());
        let call = self.begin("batch_retrieve", &count);
        call.end(self.tool.batch_retrieve(keys).await)
    }

    fn promises(&self) -> Promises {
        self.tool.promises()
    }

    fn deadline(&self) -> Duration {
        self.tool.deadline()
    }

    fn close(&self) {
        self.tool.close();
    }
}

impl fmt::Debug for Audited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audited")
            .field("actor", &self.actor)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;
    use tracing::{
        Event, Id, Metadata, Subscriber,
        field::{Field, Visit},
        span::{Attributes, Record as Values},
    };

    use super::*;
    use helve_client::{KeyOptions, MemoryBuilder};

    /// Keeps what is said under the audit's target, field by field.
    #[derive(Default)]
    struct Trail(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.push_str(&format!("{field}={value:?} "));
        }
    }

    impl Subscriber for Trail {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "helve::audit"
        }

        fn new_span(&self, _span: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _span: &Id, _values: &Values<'_>) {}

        fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn enter(&self, _span: &Id) {}

        fn exit(&self, _span: &Id) {}
    }

    #[tokio::test]
    async fn every_call_leaves_an_event_and_none_shows_a_value() {
        // With one subscriber alone, another test's thread could turn the events off for all (tracing-core 0.1.36, `callsite.rs`, `JustOne`).
        let _another = tracing::Dispatch::new(Trail::default());
        let trail = Trail::default();
        let lines = Arc::clone(&trail.0);
        let _guard = tracing::subscriber::set_default(trail);
        let keys = MemoryBuilder::new()
            .build()
            .unwrap()
            .keys(KeyOptions::shared());
        let tool = Audited::new(Arc::new(keys), "agent-1");
        let secret = json!("a secret");
        tool.store("k", &secret).await.unwrap();
        tool.store_if("k", &secret, Ttl::Never, 0).await.unwrap();
        tool.retrieve("k").await.unwrap();
        tool.exists("k").await.unwrap();
        tool.list("p").await.unwrap();
        tool.list_infos("p").await.unwrap();
        tool.list_values("p").await.unwrap();
        tool.batch_store(&[("b".to_owned(), secret)]).await.unwrap();
        tool.batch_retrieve(&["b".to_owned()]).await.unwrap();
        tool.delete("k").await.unwrap();
        tool.store("", &json!(1)).await.unwrap_err();
        drop(tool.retrieve("never awaited"));
        tool.close();
        tool.exists("k").await.unwrap_err();
        let lines = lines.lock().unwrap();
        let expected = [
            ("store", "k", "ok"),
            ("store_if", "k", "ok"),
            ("retrieve", "k", "ok"),
            ("exists", "k", "ok"),
            ("list", "p", "ok"),
            ("list", "p", "ok"),
            ("list_values", "p", "ok"),
            ("batch_store", "1 keys", "ok"),
            ("batch_retrieve", "1 keys", "ok"),
            ("delete", "k", "ok"),
            ("store", "", "Invalid"),
            ("exists", "k", "Closed"),
        ];
        let expected = expected.map(|(operation, key, outcome)| {
            format!("actor=\"agent-1\" operation={operation:?} key={key:?} outcome={outcome:?} ")
        });
        assert_eq!(*lines, expected);
    }
}
