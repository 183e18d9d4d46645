//! What a call leaves in traces: its name, and the address and number of each try.

mod scripted;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard},
};

use helve_client::{
    Client, HandleOptions, HandleStore, Handles, Reason, TraceParent, Ttl, Watch, within_trace,
};
use scripted::{Node, Over, Step};
use tokio::sync::Mutex as TurnMutex;
use tracing::{
    Event, Id, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
    subscriber::set_default,
};

/// Held by each test: what one thread knows of a span's place in the code, `tracing` keeps for all.
static TURN: TurnMutex<()> = TurnMutex::const_new(());

/// Keeps the spans of the client in which something runs, field by field, each with those around it.
#[derive(Default, Clone)]
struct Spans(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    said: Vec<String>,
    /// The ids of those that are entered, the innermost last.
    entered: Vec<u64>,
    /// In the order in which something first ran there.
    ran: Vec<String>,
}

struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Spans {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("nothing panics with it")
    }

    fn ran(&self) -> Vec<String> {
        self.seen().ran.clone()
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("helve_client")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut said = Said(span.metadata().name().to_owned());
        span.record(&mut said);
        let mut seen = self.seen();
        seen.said.push(said.0);
        Id::from_u64(seen.said.len() as u64)
    }

    fn enter(&self, span: &Id) {
        let mut seen = self.seen();
        seen.entered.push(span.into_u64());
        let around = seen.entered.iter().map(|id| &*seen.said[*id as usize - 1]);
        let path = around.collect::<Vec<_>>().join(" > ");
        if !seen.ran.contains(&path) {
            seen.ran.push(path);
        }
    }

    fn exit(&self, span: &Id) {
        let mut seen = self.seen();
        let at = seen.entered.iter().rposition(|id| *id == span.into_u64());
        seen.entered.remove(at.expect("it was entered"));
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
}

fn client(node: &Node, over: Over) -> Client {
    let builder = over.builder([node.address.clone()]);
    builder.build().expect("it has an address")
}

#[tokio::test]
async fn each_call_and_each_try_is_a_span() {
    let _turn = TURN.lock().await;
    let node = Node::start([Step::Refuse(Reason::Overloaded), Step::Answer]).await;
    let client = client(&node, Over::Unary);
    let store: Handles<u32> = client.handles(HandleOptions::shared("s"));
    let spans = Spans::default();
    {
        let _collecting = set_default(spans.clone());
        store.mint(&1, Ttl::Default).await.expect("it is minted");
    }
    let address = &node.address;
    let expected = [
        r#"call rpc="OpenSession""#.to_owned(),
        format!(r#"call rpc="OpenSession" > try address={address:?} number=1"#),
        r#"call rpc="Mint""#.to_owned(),
        format!(r#"call rpc="Mint" > try address={address:?} number=1"#),
        format!(r#"call rpc="Mint" > try address={address:?} number=2"#),
    ];
    assert_eq!(spans.ran(), expected);
}

#[tokio::test]
async fn stream_of_a_watch_is_opened_within_a_span() {
    let _turn = TURN.lock().await;
    let node = Node::start([]).await;
    let client = client(&node, Over::Unary);
    let spans = Spans::default();
    {
        let _collecting = set_default(spans.clone());
        let watch = client.watch(Watch::store("s")).await;
        watch.expect_err("the node has no watches");
    }
    let address = &node.address;
    let expected = [
        r#"call rpc="Watch""#.to_owned(),
        format!(r#"call rpc="Watch" > try address={address:?} number=1"#),
    ];
    assert_eq!(spans.ran()[..2], expected);
}

#[tokio::test]
async fn nodes_are_told_the_span_that_a_call_is_made_in() {
    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let _turn = TURN.lock().await;
    let node = Node::start([Step::Answer; 5]).await;
    let [streams, unary] = [Over::Streams, Over::Unary]
        .map(|over| client(&node, over).handles::<u32>(HandleOptions::shared("s")));
    let not_sampled = SAMPLED.replace("-01", "-00");
    for (store, parent) in [
        (&unary, Some(SAMPLED)),
        (&unary, Some(&*not_sampled)),
        (&unary, Some("00-malformed")),
        (&unary, None),
        (&streams, Some(SAMPLED)),
    ] {
        let parent = parent.and_then(TraceParent::parse);
        let minted = within_trace(parent, store.mint(&1, Ttl::Default)).await;
        minted.expect("it is minted");
    }
    let parents = [
        Some(SAMPLED),
        Some(&*not_sampled),
        None,
        None,
        Some(SAMPLED),
    ];
    assert_eq!(node.parents(), parents.map(|it| it.map(str::to_owned)));
    assert_eq!(node.exchanged().batches, [0; 0], "a batch has no span");
}
