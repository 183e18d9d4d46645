//! Batches of forwarded commands, and their answers.

use std::collections::BTreeMap;

use helve_proto::peer::v1 as proto;
use proptest::prelude::*;

use super::*;
use crate::{
    limits::{EXECUTE_BATCHES_MAX, EXECUTE_COMMANDS_MAX},
    node::Alone,
    properties::{bytes_like, check},
};

mod recorded;

fn call(correlation_id: u64, tenant: &str) -> ForwardCall {
    let command = Command {
        tenant: tenant.to_owned(),
        ..Command::default()
    };
    ForwardCall {
        correlation_id,
        timeout_ms: 60_000,
        command: Some(Box::new(command)),
        span: None,
    }
}

/// Has the node lead a cluster of its own.
async fn lead(node: &Alone) {
    let us = node.consensus.identity();
    let members = BTreeMap::from([(us.node_id(), us.record().clone())]);
    node.consensus.initialize(members).await.unwrap();
    let led = node.consensus.wait_leading(|leading| leading.here).await;
    led.unwrap();
}

fn executor(node: &Alone, audit: Audit) -> Executor {
    Executor {
        proposer: Proposer::clone(&node.services.proposer),
        audit,
        vault: Arc::clone(&node.services.vault),
    }
}

/// What is answered to calls that arrive together.
async fn answers(executor: Executor, calls: Vec<ForwardCall>) -> Vec<ForwardAnswer> {
    // No answer waits until another one is read.
    let (replies, mut received) = mpsc::channel(calls.len() + 1);
    let batch = ForwardBatch {
        header: None,
        calls,
    };
    let executing = Executing::begin(executor, None, batch);
    executing.answer(replies).await;
    let mut answers = Vec::new();
    while let Some(reply) = received.recv().await {
        answers.extend(reply.unwrap().answers);
    }
    answers
}

#[tokio::test]
async fn call_behind_many_of_another_tenant_is_answered_early() {
    let node = Alone::start().await;
    lead(&node).await;

    // More batches than are under way at once.
    let many = (EXECUTE_BATCHES_MAX + 2) * EXECUTE_COMMANDS_MAX;
    let last = u64::try_from(many).unwrap();
    let mut calls: Vec<_> = (0..last).map(|id| call(id, "greedy")).collect();
    calls.push(call(last, "honest"));
    let answered = answers(executor(&node, Audit::default()), calls).await;
    let outcome = |it: &ForwardAnswer| matches!(it.answer, Some(Answer::Outcome(_)));
    assert!(answered.iter().all(outcome));
    let mut ids: Vec<_> = answered.iter().map(|it| it.correlation_id).collect();
    let at = ids.iter().position(|id| *id == last).unwrap();
    assert!(at < EXECUTE_BATCHES_MAX * EXECUTE_COMMANDS_MAX, "{at}");
    ids.sort_unstable();
    assert_eq!(ids, (0..=last).collect::<Vec<_>>(), "each once");
}

#[tokio::test]
async fn calls_to_a_node_that_does_not_lead_are_each_refused() {
    let node = Alone::start().await;
    let calls = vec![call(7, "acme"), call(8, "shop")];
    let mut ids = Vec::new();
    for answer in answers(executor(&node, Audit::default()), calls).await {
        let Some(Answer::Rejected(rejected)) = &answer.answer else {
            panic!("not refused: {answer:?}");
        };
        assert_eq!(rejected.reason(), RejectReason::NotLeader);
        ids.push(answer.correlation_id);
    }
    assert_eq!(ids, [7, 8]);
}

#[test]
fn commands_that_a_peer_makes_up_keep_their_deadlines_and_their_words() {
    let call = ForwardCall {
        correlation_id: 7,
        timeout_ms: 5_000,
        command: Some(Box::new(Command {
            tenant: "default".to_owned(),
            fingerprint: vec![1; 16].into(),
            ..Command::default()
        })),
        span: Some(proto::Span::default()),
    };
    let batch = ForwardBatch {
        header: None,
        calls: vec![call.clone(), call],
    };
    let now = Instant::now();
    let longest = Duration::from_millis(u32::MAX.into());
    check(&bytes_like(vec![batch.encode_to_vec()]), |bytes| {
        let Ok(batch) = ForwardBatch::decode(bytes.as_slice()) else {
            return Ok(());
        };
        let again = ForwardBatch::decode(batch.encode_to_vec().as_slice());
        prop_assert_eq!(again.as_ref(), Ok(&batch));
        for call in batch.calls {
            let sent = call.command.clone().unwrap_or_default();
            let timed = timed(call, now);
            prop_assert!(timed.deadline >= now && timed.deadline <= now + longest);
            prop_assert_eq!(timed.command, sent);
        }
        Ok(())
    });
}
