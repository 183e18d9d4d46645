//! Bounds that an operator lowered: what a caller hears at each, and that the metrics count it.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, stream};
use helve_client::NodeConnection;
use helve_node::bounds::{OwnerKind, What, name};
use helve_proto::{
    Reason,
    v1::{
        BatchRetrieveRequest, ErrorReply, ExchangeCall, ExchangeReply, ExchangeRequest,
        ListKeysReply, ListKeysRequest, RetrieveRequest, TokenRole, WatchKeys, WatchReply,
        WatchRequest, call_service_client::CallServiceClient, exchange_answer::Answer,
        exchange_call::Call, state_service_client::StateServiceClient,
        watch_request::Target as Watched, watch_service_client::WatchServiceClient,
    },
};
use helve_tests::{
    caller::{Caller, reason},
    cluster::Cluster,
    token::grant,
    wait::{Look, until},
};
use tonic::{Code, Status, Streaming, transport::Endpoint};
use tonic_types::StatusExt as _;

use super::{access::Guarded, lists::fill, nodes, probes::get, replay::mint_of};

/// Fails unless a call was refused at this bound of its principal.
fn is_at_bound(refused: &Status, what: What) -> Result<()> {
    ensure!(reason(refused) == Some(Reason::Overloaded), "{refused}");
    ensure!(refused.code() == Code::ResourceExhausted, "{refused}");
    let details = refused.get_details_error_info().context("no details")?;
    let bound = details.metadata.get("bound").context("no bound")?;
    ensure!(*bound == name(OwnerKind::Principal, what), "{bound}");
    Ok(())
}

/// Waits until the metrics show this bound of principals, and that it refused something.
async fn is_counted(cluster: &Cluster, what: What, limit: usize) -> Result<()> {
    let labels = format!("{{owner=\"principal\",what=\"{}\"}}", what.name());
    let limit = format!("helve_budget_limit{labels} {limit}");
    let refused = format!("helve_budget_refused_total{labels} ");
    let http = cluster.listeners(1).http;
    until("the refusal to be counted", async || {
        let page = match get(http, "/metrics").await {
            Ok((200, page)) => page,
            other => return Look::NotYet(format!("{other:?}")),
        };
        let is_shown = page.lines().any(|line| line == limit);
        let mut lines = page.lines();
        let times = lines.find_map(|line| line.strip_prefix(refused.as_str()));
        match times.map(str::parse::<u64>) {
            Some(Ok(1..)) if is_shown => Look::Done(()),
            other => Look::NotYet(format!("{other:?}, limit shown: {is_shown}")),
        }
    })
    .await
}

/// A node with these bounds, and a caller of the default tenant.
async fn bounded(bounds: &str) -> Result<(Guarded, Caller)> {
    let guarded = Guarded::of(nodes(1).with("HELVE_BOUNDS", bounds)).await?;
    let ann = guarded.token(grant("default", TokenRole::Writer, "ann"));
    let ann = guarded.caller(1, &ann.await?);
    Ok((guarded, ann))
}

async fn watch(caller: &Caller) -> Result<Streaming<WatchReply>, Status> {
    let request = WatchRequest {
        target: Some(Watched::Keys(WatchKeys::default())),
        ..WatchRequest::default()
    };
    let mut client = WatchServiceClient::new(caller.line());
    Ok(client.watch(request).await?.into_inner())
}

fn exchanged(correlation_id: u64, call: Call) -> ExchangeCall {
    ExchangeCall {
        correlation_id,
        timeout_ms: 0,
        call: Some(call),
    }
}

/// A stream of Exchange on which one call was answered.
async fn exchange(caller: &Caller) -> Result<Streaming<ExchangeReply>, Status> {
    let request = RetrieveRequest {
        key: "k".to_owned(),
        ..RetrieveRequest::default()
    };
    let batch = ExchangeRequest {
        calls: vec![exchanged(1, Call::Retrieve(request))],
    };
    let batches = stream::iter([batch]).chain(stream::pending());
    let mut client = CallServiceClient::new(caller.line());
    let mut answers = client.exchange(batches).await?.into_inner();
    answers.message().await?;
    Ok(answers)
}

#[tokio::test]
async fn lowered_watches_and_streams_are_named_and_counted() -> Result<()> {
    let (guarded, ann) = bounded("principal-watches=1,principal-streams=2").await?;
    let opened = async || Look::of(watch(&ann).await);
    let _watch = until("a watch", opened).await?;
    // The stream of an answer that has come may be taken for a moment longer.
    let refused = until("a second watch to be refused", async || {
        match watch(&ann).await {
            Err(status) if is_at_bound(&status, What::Streams).is_err() => Look::Done(status),
            Err(status) => Look::NotYet(status.to_string()),
            Ok(_) => Look::NotYet("it was let in".to_owned()),
        }
    })
    .await?;
    is_at_bound(&refused, What::Watches)?;
    is_counted(&guarded.cluster, What::Watches, 1).await?;
    let opened = async || Look::of(exchange(&ann).await);
    let _exchange = until("a second stream", opened).await?;
    let third = ann.retrieve(RetrieveRequest::default()).await;
    let refused = third.err().context("a third stream was let in")?;
    is_at_bound(&refused, What::Streams)?;
    is_counted(&guarded.cluster, What::Streams, 2).await
}

/// A list of which the first part was read; the others do not fit the window of its stream.
async fn list(line: &NodeConnection) -> Result<Streaming<ListKeysReply>, Status> {
    let request = ListKeysRequest {
        prefix: "list/".to_owned(),
        with_values: true,
        ..ListKeysRequest::default()
    };
    let mut client = StateServiceClient::new(line.clone());
    let mut parts = client.list(request).await?.into_inner();
    parts.message().await?;
    Ok(parts)
}

#[tokio::test]
async fn lowered_lists_are_named_and_counted() -> Result<()> {
    let guarded = Guarded::of(nodes(1).with("HELVE_BOUNDS", "principal-lists=1")).await?;
    let ann = guarded.token(grant("default", TokenRole::Writer, "ann"));
    let ann = ann.await?;
    fill(&guarded.caller(1, &ann)).await?;
    let address = guarded.cluster.listeners(1).client;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    let narrow = endpoint
        .initial_stream_window_size(65_535)
        .connect()
        .await?;
    let line = NodeConnection::new(address.to_string(), narrow, &ann.bearer);
    let refused = until("a second list to be refused", async || {
        // A list that is not read lapses after some seconds.
        let _unread = match list(&line).await {
            Ok(parts) => parts,
            Err(status) => return Look::NotYet(status.to_string()),
        };
        match list(&line).await {
            Err(status) => Look::Done(status),
            Ok(_) => Look::NotYet("both were let in".to_owned()),
        }
    })
    .await?;
    is_at_bound(&refused, What::Lists)?;
    is_counted(&guarded.cluster, What::Lists, 1).await
}

/// The first refusal among many calls of one batch.
async fn first_refusal(caller: &Caller) -> Result<Option<ErrorReply>, Status> {
    let calls = (1..=100).map(|number| exchanged(number, Call::Mint(mint_of("carts"))));
    let batch = ExchangeRequest {
        calls: calls.collect(),
    };
    let mut client = CallServiceClient::new(caller.line());
    let mut replies = client.exchange(stream::iter([batch])).await?.into_inner();
    while let Some(reply) = replies.message().await? {
        for answer in reply.answers {
            if let Some(Answer::Error(error)) = answer.answer {
                return Ok(Some(error));
            }
        }
    }
    Ok(None)
}

#[tokio::test]
async fn lowered_calls_are_named_and_counted() -> Result<()> {
    let (guarded, ann) = bounded("principal-calls=1").await?;
    let refused = until(
        "a call beside another to be refused",
        async || match first_refusal(&ann).await {
            Ok(Some(refused)) => Look::Done(refused),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    ensure!(refused.reason == "OVERLOADED", "{refused:?}");
    let bound = refused.metadata.get("bound").context("no bound")?;
    ensure!(*bound == name(OwnerKind::Principal, What::Calls), "{bound}");
    is_counted(&guarded.cluster, What::Calls, 1).await
}

#[tokio::test]
async fn lowered_size_of_a_decoded_message_is_told_and_counted() -> Result<()> {
    let setup = nodes(1).with("HELVE_BOUNDS", "message-decoded-bytes=4096");
    let cluster = setup.start().await?;
    let large = BatchRetrieveRequest {
        keys: (0..100).map(|number| format!("{number:0100}")).collect(),
        ..BatchRetrieveRequest::default()
    };
    let refused = cluster.caller(1).batch_retrieve(large).await;
    let refused = refused.err().context("it was decoded")?;
    ensure!(reason(&refused) == Some(Reason::TooLarge), "{refused}");
    ensure!(
        refused.message().contains("more than 4096 bytes"),
        "{refused}"
    );
    let http = cluster.listeners(1).http;
    until("the message to be counted", async || {
        let counted = r#"helve_messages_given_up_total{why="too-large"} 1"#;
        match get(http, "/metrics").await {
            Ok((200, page)) if page.lines().any(|line| line == counted) => Look::Done(()),
            other => Look::NotYet(format!("{:?}", other.map(|(status, _)| status))),
        }
    })
    .await?;
    // A smaller one is carried out.
    let small = RetrieveRequest {
        key: "k".to_owned(),
        ..RetrieveRequest::default()
    };
    cluster.caller(1).retrieve(small).await?;
    Ok(())
}
