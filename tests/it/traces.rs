//! Spans of calls, as a collector of OpenTelemetry gets them from the nodes of a cluster.

mod collector;
mod streams;

use std::{fs, net::SocketAddr};

use anyhow::{Context as _, Result, ensure};
use helve_client::{ClusterBuilder, Owner};
use helve_mcp::{
    serve::{Access, Shutdown, Versions, router, serve},
    state::{
        Callers, Settings,
        gate::{Destructive, Gate, Visible},
        server,
    },
};
use helve_node::tls::authority::Life;
use helve_proto::v1::{
    ListRequest, Quotas, RetrieveRequest, StoreReply, StoreRequest, TokenRole,
    handle_service_client::HandleServiceClient, state_service_client::StateServiceClient,
};
use helve_tests::{
    address::next_loopback,
    caller::{Caller, new_identity, with_deadline},
    certificates::{Certificates, LIFE},
    cluster::Cluster,
    token::grant,
    wait::{Look, until},
};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tonic::{
    Code, Request,
    transport::{Identity, Server, ServerTlsConfig},
};

use self::collector::{Collector, Seen, part};
use super::{access::Guarded, json::post, nodes, probes::get};

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN_ID: &str = "b7ad6b7169203331";
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_SAMPLED: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// A call with these values of `traceparent`.
fn traced<T>(message: T, parents: &[&str]) -> Result<Request<T>> {
    let mut request = with_deadline(message);
    for parent in parents {
        request
            .metadata_mut()
            .append("traceparent", parent.parse()?);
    }
    Ok(request)
}

fn write() -> StoreRequest {
    StoreRequest {
        key: "app/1".to_owned(),
        value: "v".into(),
        identity: Some(new_identity()),
        ..StoreRequest::default()
    }
}

async fn store(caller: &Caller, parents: &[&str]) -> Result<StoreReply> {
    let mut client = StateServiceClient::new(caller.line());
    Ok(client.store(traced(write(), parents)?).await?.into_inner())
}

/// A call of the tool `retrieve` at an MCP server, with these lines in its head and this member of `_meta`.
async fn retrieve_by_mcp(at: SocketAddr, lines: &str, meta: Option<&str>) -> Result<()> {
    const PROTOCOL: &str = "io.modelcontextprotocol/";
    let mut params = json!({"name": "retrieve", "arguments": {"key": "app/1"}, "_meta": {
        (format!("{PROTOCOL}protocolVersion")): "2026-07-28",
        (format!("{PROTOCOL}clientCapabilities")): {},
    }});
    if let Some(meta) = meta {
        params["_meta"]["traceparent"] = meta.into();
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: retrieve\r\nConnection: close\r\n\
         Content-Length: {}\r\n{lines}\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all((head + &body).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(())
}

/// Waits until a node has dropped spans.
async fn drops(cluster: &Cluster) -> Result<()> {
    until("spans to be dropped", async || {
        match dropped(cluster).await {
            Ok(0) => Look::NotYet("none".to_owned()),
            number => Look::of(number.map(drop)),
        }
    })
    .await
}

/// How many spans a node says that it dropped.
async fn dropped(cluster: &Cluster) -> Result<u64> {
    let (_, page) = get(cluster.listeners(1).http, "/metrics").await?;
    let mut lines = page.lines();
    let number = lines.find_map(|line| line.strip_prefix("helve_trace_spans_dropped_total "));
    Ok(number.context("there is no such metric")?.parse()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn write_through_a_follower_is_one_trace_from_its_call_to_apply() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(3).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.start().await?;
    let leader = cluster.leader().await?.seat;
    let follower = cluster.others(leader)[0];
    store(&cluster.caller(follower), &[SAMPLED]).await?;
    let way = |spans: &[Seen]| {
        let call = part(spans, "Store", SPAN_ID)?;
        let forward = part(spans, "forward", &call.id)?;
        let execute = part(spans, "execute", &forward.id)?;
        let stages = ["queue", "append", "replicate", "apply"];
        let stages = stages.map(|name| part(spans, name, &execute.id).cloned());
        let [Some(queue), Some(append), Some(replicate), Some(apply)] = stages else {
            return None;
        };
        let queued = part(spans, "queue", &call.id)?;
        let of_follower = [call, forward, queued].map(Clone::clone);
        Some((
            of_follower,
            [execute.clone(), queue, append, replicate, apply],
        ))
    };
    let (of_follower, of_leader) = collector.finds("the spans of a write", way).await?;
    let [call, forward, _] = &of_follower;
    assert_eq!(
        (call.kind, forward.kind),
        (SpanKind::Server, SpanKind::Client)
    );
    assert_eq!(call.tenant, "default");
    assert_eq!(of_leader[0].kind, SpanKind::Server);
    let follower = follower.to_string();
    assert!(of_follower.iter().all(|span| span.seat == follower));
    let leader = leader.to_string();
    assert!(of_leader.iter().all(|span| span.seat == leader));
    let spans = collector.spans();
    // Other replicas apply the entry as well.
    let mut applied = spans.iter().filter(|span| span.name == "apply");
    assert!(applied.all(|span| span.seat == leader), "{spans:#?}");
    assert!(
        spans.iter().all(|span| span.trace_id == TRACE_ID),
        "{spans:#?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn read_is_a_trace_with_its_round_and_a_call_in_json_is_one_too() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.start().await?;
    let caller = cluster.caller(1);
    let read = RetrieveRequest {
        key: "app/1".to_owned(),
        ..RetrieveRequest::default()
    };
    let mut client = StateServiceClient::new(caller.line());
    client.retrieve(traced(read, &[SAMPLED])?).await?;
    let round = |spans: &[Seen]| {
        let call = part(spans, "Retrieve", SPAN_ID)?;
        part(spans, "read index", &call.id).map(drop)
    };
    collector.finds("the spans of a read", round).await?;
    let mut client = HandleServiceClient::new(caller.line());
    let list = ListRequest {
        store: "cart".to_owned(),
        ..ListRequest::default()
    };
    let mut parts = client.list(traced(list, &[SAMPLED])?).await?.into_inner();
    while parts.message().await?.is_some() {}
    let round = |spans: &[Seen]| {
        let call = part(spans, "List", SPAN_ID)?;
        part(spans, "read index", &call.id).map(drop)
    };
    collector.finds("the spans of a list", round).await?;
    let address = cluster.listeners(1).client;
    let head = format!("traceparent: {SAMPLED}\r\n");
    let sent = post(address, "StateService/Exists", &head, r#"{"key": "app/1"}"#);
    ensure!(sent.await?.0 == 200, "the call was refused");
    let call = |spans: &[Seen]| part(spans, "Exists", SPAN_ID).map(drop);
    collector.finds("the span of a call in JSON", call).await
}

#[tokio::test(flavor = "multi_thread")]
async fn span_of_a_request_to_an_mcp_server_goes_on_at_the_node() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.start().await?;
    let client = ClusterBuilder::new(cluster.endpoints()).build()?;
    let settings = Settings {
        gate: Gate {
            tools: Visible::Reads,
            destructive: Destructive::Absent,
        },
        codec: None,
        callers: Callers::One(Owner::shared()),
        default_ttl: None,
        idle_ttl: None,
        versions: Versions::Modern,
    };
    let shutdown = Shutdown::new();
    let routes = router(server(&client, settings), &Access::default(), &shutdown);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let serving = tokio::spawn(serve(listener, routes, shutdown.clone()));
    let header = format!("traceparent: {SAMPLED}\r\n");
    retrieve_by_mcp(at, &header, None).await?;
    let call = |spans: &[Seen]| part(spans, "Retrieve", SPAN_ID).map(drop);
    collector.finds("the span of a header", call).await?;
    // What the request itself says counts.
    let own = SAMPLED.replace(SPAN_ID, "00f067aa0ba902b7");
    retrieve_by_mcp(at, &header, Some(&own)).await?;
    let call = |spans: &[Seen]| part(spans, "Retrieve", "00f067aa0ba902b7").map(drop);
    collector.finds("the span of `_meta`", call).await?;
    shutdown.begin();
    serving.await??;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_whose_callers_do_not_ask_for_a_trace_have_none() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.start().await?;
    let caller = cluster.caller(1);
    let malformed = SAMPLED.to_uppercase();
    let too_long = format!("{SAMPLED}-");
    let none: [&[&str]; 5] = [
        &[],
        &[NOT_SAMPLED],
        &[malformed.as_str()],
        &[too_long.as_str()],
        &["", SAMPLED],
    ];
    for parents in none {
        store(&caller, parents).await?;
    }
    store(&caller, &[SAMPLED]).await?;
    // It began last, so those before it would be here by now: one queue carries all.
    let last = |spans: &[Seen]| part(spans, "Store", SPAN_ID).map(drop);
    collector.finds("the span of the last call", last).await?;
    let spans = collector.spans();
    let calls = spans.iter().filter(|span| span.name == "Store");
    assert_eq!(calls.count(), 1, "{spans:#?}");
    assert!(spans.iter().all(|span| span.trace_id == TRACE_ID));
    assert_eq!(dropped(&cluster).await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_samples_traces_calls_whose_callers_say_nothing() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.with("HELVE_TRACE_SAMPLE", "1").start().await?;
    let caller = cluster.caller(1);
    store(&caller, &[NOT_SAMPLED]).await?;
    store(&caller, &[]).await?;
    let root = |spans: &[Seen]| part(spans, "Store", "").cloned();
    let root = collector.finds("a trace of the node's own", root).await?;
    let applied = |spans: &[Seen]| part(spans, "apply", &root.id).map(drop);
    collector.finds("its parts", applied).await?;
    let spans = collector.spans();
    let calls = spans.iter().filter(|span| span.name == "Store");
    assert_eq!(calls.count(), 1, "{spans:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_without_a_credential_turns_no_trace_on() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let guarded = Guarded::of(setup).await?;
    let stranger = Caller::new(guarded.cluster.listeners(1).client);
    let mut client = StateServiceClient::new(stranger.line());
    let refused = client.store(traced(write(), &[SAMPLED])?).await;
    assert_eq!(
        refused.map(drop).map_err(|it| it.code()),
        Err(Code::Unauthenticated)
    );
    guarded.tenant("acme", Quotas::default()).await?;
    let token = guarded
        .token(grant("acme", TokenRole::Writer, "shop"))
        .await?;
    store(&guarded.caller(1, &token), &[SAMPLED]).await?;
    let call = |spans: &[Seen]| part(spans, "Store", SPAN_ID).cloned();
    let call = collector
        .finds("the span of the known caller", call)
        .await?;
    assert_eq!(call.tenant, "acme");
    let spans = collector.spans();
    let calls = spans.iter().filter(|span| span.name == "Store");
    assert_eq!(calls.count(), 1, "{spans:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_go_over_tls_to_a_collector_of_the_named_ca_alone() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let ca = Certificates::make(directory.path().join("ca"))?;
    let other = Certificates::make(directory.path().join("other"))?;
    ca.node("collector", "localhost", Life::of(LIFE))?;
    let read = |end: &str| fs::read(ca.path(&format!("collector.{end}")));
    let identity = Identity::from_pem(read("crt")?, read("key")?);
    let tls = ServerTlsConfig::new().identity(identity);
    let collector = Collector::serve(Server::builder().tls_config(tls)?).await?;
    let url = format!("https://localhost:{}", collector.address.port());
    let start = async |ca: &Certificates| {
        let ca = ca.path("ca.crt").display().to_string();
        let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &url);
        setup.with("HELVE_OTLP_CA", &ca).start().await
    };
    let cluster = start(&other).await?;
    store(&cluster.caller(1), &[SAMPLED]).await?;
    drops(&cluster).await?;
    assert!(collector.spans().is_empty());
    // Two that run at a time could keep each other from starting.
    drop(cluster);
    let cluster = start(&ca).await?;
    store(&cluster.caller(1), &[SAMPLED]).await?;
    let call = |spans: &[Seen]| part(spans, "Store", SPAN_ID).map(drop);
    collector.finds("a span over TLS", call).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_without_a_collector_and_their_spans_are_counted_as_dropped() -> Result<()> {
    // Nothing else is given this address, and nothing listens there.
    let gone = SocketAddr::new(next_loopback(), 4317);
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    for collector in [gone, silent.local_addr()?] {
        let url = format!("http://{collector}");
        let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &url);
        let cluster = setup.start().await?;
        for _ in 0..8 {
            store(&cluster.caller(1), &[SAMPLED]).await?;
        }
        drops(&cluster).await?;
        let written = store(&cluster.caller(1), &[SAMPLED]).await?;
        ensure!(written.info.is_some(), "{written:?}");
    }
    Ok(())
}
