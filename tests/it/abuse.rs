//! Callers that ask for too much at once, or in a way that would cost the node more than them.

use std::iter;

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use helve_node::limits::{CALLS_IN_FLIGHT_MAX, HEADER_LIST_BYTES_MAX, OVERLOADED_RETRY_AFTER};
use helve_proto::{Reason, v1::handle_service_client::HandleServiceClient};
use helve_tests::{
    caller::{Caller, reason, with_deadline},
    wait::{Look, until},
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{nodes, probes::get, replay::mint_of};

/// Mints with one more header.
async fn mint_with(caller: &Caller, name: &'static str, value: &str) -> Result<(), Status> {
    let mut request = with_deadline(mint_of("carts"));
    let value = value.parse().expect("letters make a header");
    request.metadata_mut().insert(name, value);
    let mut client = HandleServiceClient::new(caller.channel());
    client.mint(request).await.map(drop)
}

#[tokio::test]
async fn a_compressed_message_is_refused_by_the_name_of_its_encoding() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let caller = cluster.caller(1);
    let refused = mint_with(&caller, "grpc-encoding", "gzip").await;
    let refused = refused.err().context("it was decompressed")?;
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("gzip"), "{refused}");
    caller.mint(mint_of("carts")).await?;
    Ok(())
}

#[tokio::test]
async fn headers_over_the_limit_are_refused_and_others_are_served() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let caller = cluster.caller(1);
    let max = usize::try_from(HEADER_LIST_BYTES_MAX)?;
    mint_with(&caller, "x-much", &"h".repeat(max / 2)).await?;
    let refused = mint_with(&caller, "x-too-much", &"h".repeat(max)).await;
    ensure!(refused.is_err(), "{max} bytes of headers were taken");
    cluster.caller(1).mint(mint_of("carts")).await?;
    Ok(())
}

/// Connections of a flood, each with fewer calls than it may have streams.
const CONNECTIONS: usize = 6;
const CALLS_EACH: usize = 900;

#[tokio::test]
async fn a_flood_above_the_limit_is_refused_with_a_pause_and_passes() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    // Without its followers no write of the leader ends, so that all are under way at once.
    for seat in cluster.others(leader) {
        cluster.node(seat).freeze()?;
    }
    let callers: Vec<_> = iter::repeat_with(|| cluster.caller(leader))
        .take(CONNECTIONS)
        .collect();
    let calls = callers
        .iter()
        .flat_map(|caller| iter::repeat_n(caller, CALLS_EACH));
    let answers = join_all(calls.map(|caller| caller.mint(mint_of("carts")))).await;
    let refused: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .filter(|status| reason(status) == Some(Reason::Overloaded))
        .collect();
    let above = CONNECTIONS * CALLS_EACH - CALLS_IN_FLIGHT_MAX;
    ensure!(
        refused.len() >= above,
        "{} of {above} were refused",
        refused.len()
    );
    for status in refused {
        assert_eq!(status.code(), Code::ResourceExhausted);
        let details = status.get_error_details();
        let pause = details.retry_info().and_then(|info| info.retry_delay);
        assert_eq!(pause, Some(OVERLOADED_RETRY_AFTER));
        let info = details.error_info().context("a reason")?;
        let pause_ms = OVERLOADED_RETRY_AFTER.as_millis().to_string();
        assert_eq!(info.metadata.get("retry_after_ms"), Some(&pause_ms));
    }
    for seat in cluster.others(leader) {
        cluster.node(seat).thaw()?;
    }
    cluster.all_ready().await?;
    let caller = cluster.caller(leader);
    until("the node to serve again", async || {
        Look::of(caller.mint(mint_of("carts")).await)
    })
    .await?;
    let http = cluster.listeners(leader).http;
    until("all calls to have ended", async || {
        match get(http, "/metrics").await {
            Ok((200, page)) if page.contains("helve_requests_in_flight 0") => Look::Done(()),
            other => Look::NotYet(format!("{:?}", other.map(|(status, _)| status))),
        }
    })
    .await
}
