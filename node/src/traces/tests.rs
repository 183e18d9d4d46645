//! Tests of spans: which calls have some, how they hang together, and what becomes of them without a collector.

use std::{future::pending, pin::pin, time::Instant};

use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::{
    error::{OTelSdkError, OTelSdkResult},
    trace::{SpanData, SpanExporter},
};
use proptest::prelude::*;
use tokio::sync::mpsc::UnboundedSender;
use tonic::metadata::AsciiMetadataValue;

use super::*;
use crate::{
    limits::TRACE_LINGER,
    properties::{bytes_like, check},
};

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn parent(text: &str) -> Option<TraceParent> {
    Some(TraceParent::parse(text).unwrap())
}

fn recording(one_in: u64) -> (Traces, mpsc::Receiver<Ended>, TraceCounters) {
    let counters = TraceCounters::default();
    let (traces, ended) = Traces::recording(one_in, &counters);
    (traces, ended, counters)
}

#[test]
fn caller_decides_and_the_node_where_the_caller_says_nothing() {
    let (traces, _ended, _) = recording(0);
    assert!(traces.call(parent(SAMPLED), "Put").is_some());
    assert!(traces.call(parent(NOT_SAMPLED), "Put").is_none());
    assert!(traces.call(None, "Put").is_none());
    let (traces, _ended, _) = recording(1);
    assert!(traces.call(parent(NOT_SAMPLED), "Put").is_none());
    assert!(traces.call(None, "Put").is_some());
    let (traces, _ended, _) = recording(4);
    let recorded = (0..4_000).filter(|_| traces.call(None, "Put").is_some());
    let recorded = recorded.count();
    // Seven standard deviations to each side.
    assert!((800..=1_200).contains(&recorded), "{recorded} of 4,000");
    let off = Traces::default();
    assert!(off.call(parent(SAMPLED), "Put").is_none());
    assert!(off.forwarded(&Forwarded::default()).is_none());
}

#[test]
fn one_well_formed_value_of_the_metadata_counts() {
    let (traces, _ended, _) = recording(0);
    let mut metadata = MetadataMap::new();
    assert_eq!(traces.parent(&metadata), None);
    metadata.insert(TraceParent::NAME, SAMPLED.parse().unwrap());
    assert_eq!(traces.parent(&metadata), parent(SAMPLED));
    assert_eq!(Traces::default().parent(&metadata), None);
    metadata.append(TraceParent::NAME, SAMPLED.parse().unwrap());
    assert_eq!(traces.parent(&metadata), None, "two of them");
    metadata.insert(TraceParent::NAME, "00-1".parse().unwrap());
    assert_eq!(traces.parent(&metadata), None, "malformed");
}

#[test]
fn value_that_a_client_makes_up_names_a_span_or_none() {
    let (traces, _ended, _) = recording(0);
    let real = [SAMPLED, NOT_SAMPLED].map(|text| text.as_bytes().to_vec());
    check(&bytes_like(real.to_vec()), |bytes| {
        let Ok(value) = AsciiMetadataValue::try_from(bytes.as_slice()) else {
            return Ok(());
        };
        let mut metadata = MetadataMap::new();
        metadata.insert(TraceParent::NAME, value);
        if let Some(parent) = traces.parent(&metadata) {
            prop_assert_eq!(TraceParent::parse(&parent.to_string()), Some(parent));
            let call = traces.call(Some(parent), "Put");
            prop_assert_eq!(call.is_some(), parent.is_sampled());
        }
        Ok(())
    });
}

#[test]
fn command_that_is_forwarded_goes_on_in_the_trace_of_its_call() {
    let (traces, mut ended, _) = recording(0);
    let call = traces.call(parent(SAMPLED), "Put").unwrap();
    let forward = call.trace().request("forward").unwrap();
    let execute = traces.forwarded(&forward.trace().to_forward()).unwrap();
    drop((execute, forward, call));
    let [execute, forward, call] = std::array::from_fn(|_| ended.try_recv().unwrap());
    assert_eq!(call.about.parent_id, 0xb7ad_6b71_6920_3331);
    assert_eq!(forward.about.parent_id, call.span_id);
    assert_eq!(execute.about.parent_id, forward.span_id);
    for span in [execute, forward, call] {
        assert_eq!(
            span.about.trace_id,
            0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c
        );
        assert!(span.ended_ns >= span.began_ns, "{span:?}");
    }
}

#[tokio::test]
async fn current_trace_is_that_of_the_call_around() {
    let (traces, mut ended, _) = recording(0);
    let call = traces.call(parent(SAMPLED), "Get").unwrap();
    let carried_out = async {
        tokio::task::yield_now().await;
        part("read index").is_some()
    };
    assert!(within(Some(call.trace()), pin!(carried_out)).await);
    assert!(within(None, pin!(async { current().is_none() })).await);
    let read_index = ended.try_recv().unwrap();
    drop(call);
    assert_eq!(
        read_index.about.parent_id,
        ended.try_recv().unwrap().span_id
    );
}

#[test]
fn trace_is_told_of_the_stages_that_an_entry_has_passed() {
    let (traces, mut ended, _) = recording(0);
    let call = traces.call(parent(SAMPLED), "Put").unwrap();
    let names = |ended: &mut mpsc::Receiver<Ended>| {
        let spans = std::iter::from_fn(|| ended.try_recv().ok());
        spans.map(|span| span.about.name).collect::<Vec<_>>()
    };
    let lost = Entered::now(call.trace().clone());
    lost.passage().durable();
    drop(lost);
    assert_eq!(names(&mut ended), ["append"]);
    let entered = Entered::now(call.trace().clone());
    let passage = entered.passage();
    passage.durable();
    passage.applying();
    passage.applied();
    drop(entered);
    assert_eq!(names(&mut ended), ["append", "replicate", "apply"]);
    assert!(passage.is_noted() && !Passage::default().is_noted());
}

#[test]
fn span_without_room_is_dropped_and_counted() {
    let (traces, ended, counters) = recording(1);
    for _ in 0..=TRACE_SPANS_QUEUED_MAX {
        drop(traces.call(None, "Get"));
    }
    assert_eq!(
        (ended.len(), counters.dropped.get()),
        (TRACE_SPANS_QUEUED_MAX, 1)
    );
    drop(ended);
    drop(traces.call(None, "Get"));
    assert_eq!(counters.dropped.get(), 2);
}

/// What a collector does with the spans that it is sent.
#[derive(Debug)]
enum Collector {
    Keeps(UnboundedSender<Vec<SpanData>>),
    Refuses,
    Hangs,
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        match self {
            Self::Keeps(kept) => kept.send(batch).map_err(|_| OTelSdkError::AlreadyShutdown),
            Self::Refuses => Err(OTelSdkError::InternalFailure("it is full".into())),
            Self::Hangs => pending().await,
        }
    }
}

/// What is counted once these calls have ended, and all spans were sent.
async fn sent(collector: Collector, calls: usize) -> (u64, u64) {
    let (traces, ended, counters) = recording(1);
    for _ in 0..calls {
        let mut call = traces.call(None, "Put").unwrap();
        call.of_tenant(&"a".repeat(1_000));
        call.fails("OVERLOADED");
    }
    drop(traces);
    run(collector, ended, counters.clone()).await;
    (counters.exported.get(), counters.dropped.get())
}

#[tokio::test(start_paused = true)]
async fn spans_go_to_the_collector_together() {
    let (kept, mut received) = mpsc::unbounded_channel();
    assert_eq!(sent(Collector::Keeps(kept), 600).await, (600, 0));
    let (first, second) = (
        received.recv().await.unwrap(),
        received.recv().await.unwrap(),
    );
    assert_eq!((first.len(), second.len()), (512, 88));
    let span = &first[0];
    assert_eq!(span.parent_span_id, SpanId::INVALID);
    assert_eq!(
        (span.span_kind.clone(), &*span.name),
        (SpanKind::Server, "Put")
    );
    assert_eq!(span.status, Status::error("OVERLOADED"));
    let texts: Vec<_> = span
        .attributes
        .iter()
        .map(|it| it.value.to_string())
        .collect();
    assert_eq!(texts, ["a".repeat(128), "OVERLOADED".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn span_waits_for_those_that_end_a_moment_later() {
    let (kept, mut received) = mpsc::unbounded_channel();
    let (traces, ended, counters) = recording(1);
    let sending = tokio::spawn(run(Collector::Keeps(kept), ended, counters.clone()));
    drop(traces.call(None, "Put"));
    // The first one is taken up, and lingers.
    tokio::task::yield_now().await;
    tokio::time::advance(TRACE_LINGER / 2).await;
    drop(traces.call(None, "Put"));
    assert_eq!(received.recv().await.unwrap().len(), 2);
    drop(traces.call(None, "Put"));
    assert_eq!(received.recv().await.unwrap().len(), 1);
    drop(traces);
    sending.await.unwrap();
    assert_eq!((counters.exported.get(), counters.dropped.get()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn spans_that_a_collector_does_not_take_are_dropped_and_counted() {
    assert_eq!(sent(Collector::Refuses, 3).await, (0, 3));
    assert_eq!(sent(Collector::Hangs, 3).await, (0, 3));
}

#[tokio::test]
async fn exporter_is_made_without_a_collector() {
    let settings = Settings {
        collector: Endpoint::from_static("http://127.0.0.1:1"),
        one_in: 1,
    };
    let node = Node { seat: 1, uuid: "u" };
    let counters = TraceCounters::default();
    let (traces, sending) = Traces::start(&settings, node, &counters).unwrap();
    drop(traces.call(None, "Put").unwrap());
    drop(traces);
    sending.await;
    assert_eq!((counters.exported.get(), counters.dropped.get()), (0, 1));
}

#[test]
fn part_that_is_over_lasted_as_long_as_is_said() {
    let (traces, mut ended, _) = recording(1);
    let call = traces.call(None, "Put").unwrap();
    let began = Instant::now();
    call.trace().record("append", began, began);
    let span = ended.try_recv().unwrap();
    assert!(ended.try_recv().is_err(), "it is told once");
    assert!(span.ended_ns - span.began_ns < 1_000_000_000);
}
