//! What a call leaves in traces: its name, and the address and number of each try.

mod scripted;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use helve_client::{HandleOptions, HandleStore, Handles, Reason, Ttl, Watch};
use scripted::{Node, Over, Step};
use tracing::{
    Event, Id, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
    subscriber::set_default,
};

/// Keeps each span of the client that begins, field by field.
#[derive(Default, Clone)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("helve_client")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut said = Said(span.metadata().name().to_owned());
        span.record(&mut said);
        let mut spans = self.0.lock().expect("nothing panics with it");
        spans.push(said.0);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[tokio::test]
async fn each_call_and_each_try_is_a_span() {
    let node = Node::start([Step::Refuse(Reason::Overloaded), Step::Answer]).await;
    let address = &node.address;
    let builder = Over::Unary.builder([address.clone()]);
    let client = builder.build().expect("it has an address");
    let store: Handles<u32> = client.handles(HandleOptions::shared("s"));
    let spans = Spans::default();
    {
        let _collecting = set_default(spans.clone());
        store.mint(&1, Ttl::Default).await.expect("it is minted");
    }
    let said = spans.0.lock().expect("nothing panics with it").clone();
    let expected = [
        r#"call rpc="OpenSession""#.to_owned(),
        format!("try address={address:?} number=1"),
        r#"call rpc="Mint""#.to_owned(),
        format!("try address={address:?} number=1"),
        format!("try address={address:?} number=2"),
    ];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn stream_of_a_watch_is_opened_within_a_span() {
    let node = Node::start([]).await;
    let address = &node.address;
    let builder = Over::Unary.builder([address.clone()]);
    let client = builder.build().expect("it has an address");
    let spans = Spans::default();
    {
        let _collecting = set_default(spans.clone());
        let watch = client.watch(Watch::store("s")).await;
        watch.expect_err("the node has no watches");
    }
    let said = spans.0.lock().expect("nothing panics with it").clone();
    let expected = [
        r#"call rpc="Watch""#.to_owned(),
        format!("try address={address:?} number=1"),
    ];
    assert_eq!(said.iter().take(2).cloned().collect::<Vec<_>>(), expected);
}
