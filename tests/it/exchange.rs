//! Many calls over one stream, each answered under its own correlation id.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::channel::mpsc;
use helve_proto::{
    Reason,
    v1::{
        ExchangeCall, ExchangeReply, ExchangeRequest, GetRequest, HandleStatus, MintRequest,
        PutRequest, call_service_client::CallServiceClient, exchange_answer::Answer,
        exchange_call::Call,
    },
};
use helve_tests::caller::reason;
use tonic::{Code, Streaming};

use super::nodes;

const STORE: &str = "carts";

fn get(store: &str, id: &str) -> Call {
    Call::Get(GetRequest {
        store: store.to_owned(),
        id: id.to_owned(),
        ..GetRequest::default()
    })
}

fn mint(value: &str) -> Call {
    Call::Mint(MintRequest {
        store: STORE.to_owned(),
        value: value.to_owned().into(),
        ..MintRequest::default()
    })
}

fn batch<const N: usize>(calls: [(u64, Call); N]) -> ExchangeRequest {
    let calls = calls.map(|(correlation_id, call)| ExchangeCall {
        correlation_id,
        timeout_ms: 0,
        call: Some(call),
    });
    ExchangeRequest {
        calls: calls.into(),
    }
}

/// Reads until this many calls are answered. No call is answered twice.
async fn answers(
    replies: &mut Streaming<ExchangeReply>,
    count: usize,
) -> Result<BTreeMap<u64, Answer>> {
    let mut all = BTreeMap::new();
    while all.len() < count {
        let reply = replies.message().await?.context("the stream ended early")?;
        for answer in reply.answers {
            let id = answer.correlation_id;
            let answer = answer.answer.context("an answer without content")?;
            assert_eq!(all.insert(id, answer), None, "call {id} is answered twice");
        }
    }
    Ok(all)
}

#[tokio::test]
async fn one_stream_answers_each_call_under_its_correlation_id() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let known = PutRequest {
        store: STORE.to_owned(),
        id: "known".to_owned(),
        value: "tea".into(),
        ..PutRequest::default()
    };
    cluster.caller(1).put(known).await?;
    let (mut calls, sent) = mpsc::channel(2);
    calls.try_send(batch([
        (7, mint("milk")),
        (11, get(STORE, "known")),
        (2, get("No Store", "known")),
    ]))?;
    let mut client = CallServiceClient::new(cluster.caller(2).channel());
    let mut replies = client.exchange(sent).await?.into_inner();

    let first = answers(&mut replies, 3).await?;
    let Some(Answer::Mint(minted)) = first.get(&7) else {
        panic!("call 7 was a mint: {first:?}");
    };
    let Some(Answer::Get(found)) = first.get(&11) else {
        panic!("call 11 was a get: {first:?}");
    };
    assert_eq!(
        (found.status(), &found.value[..]),
        (HandleStatus::Live, &b"tea"[..])
    );
    let Some(Answer::Error(error)) = first.get(&2) else {
        panic!("call 2 was a bad one: {first:?}");
    };
    assert_eq!(error.code, Code::InvalidArgument as i32, "{error:?}");
    assert_eq!(
        Reason::parse(&error.reason),
        Some(Reason::BadName),
        "{error:?}"
    );
    assert!(!error.message.is_empty(), "an error says what to do");

    // The bad call has not hurt the stream, and an answered number may be used again.
    let id = minted.info.clone().unwrap_or_default().name;
    calls.try_send(batch([(7, get(STORE, &id))]))?;
    let second = answers(&mut replies, 1).await?;
    assert!(
        matches!(second.get(&7), Some(Answer::Get(reply)) if reply.value == "milk"),
        "{second:?}"
    );
    drop(calls);
    assert_eq!(replies.message().await?, None, "nothing is left to answer");
    Ok(())
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_stream_with_a_reason_after_what_was_under_way()
-> Result<()> {
    let cluster = nodes(1).start().await?;
    let (mut calls, sent) = mpsc::channel(2);
    calls.try_send(batch([(1, mint("milk"))]))?;
    let value = "x".repeat(1 << 20);
    calls.try_send(batch(
        [2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(|number| (number, mint(&value))),
    ))?;
    let mut client = CallServiceClient::new(cluster.caller(1).channel());
    let mut replies = client.exchange(sent).await?.into_inner();

    let first = answers(&mut replies, 1).await?;
    assert!(matches!(first.get(&1), Some(Answer::Mint(_))), "{first:?}");
    let ended = replies.message().await;
    let status = ended.expect_err("a stream that lost a message does not end well");
    assert_eq!(reason(&status), Some(Reason::BadRequest), "{status:?}");
    Ok(())
}
