//! Attacks on what callers may take up: streams, messages and answers.

use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::Result;
use bytes::Bytes;
use futures::future::join_all;
use helve_client::{Bearer, NodeConnection};
use helve_tests::{
    address::Listeners,
    attack::{
        answers::{store_all, unread, unread_refusals},
        messages::{long_owner, raw, tiny_elements, unfinished},
        streams::Silent,
        watches,
    },
    caller::{Caller, reason},
};
use prost::Message as _;
use tonic::Status;

use crate::attacks::Target;

const EXCHANGE: &str = "/helve.v1.CallService/Exchange";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const TRANSACT: &str = "/helve.v1.TransactService/Transact";
const BATCH_RETRIEVE: &str = "/helve.v1.StateService/BatchRetrieve";

/// Connections to each node, and streams on each of them.
const CONNECTIONS: usize = 20;
const STREAMS: u32 = 1_000;
/// How long an attacker waits for a node to read what it sent, before it goes on with other
/// connections.
const PATIENCE: Duration = Duration::from_millis(500);

fn line(node: &Listeners, bearer: &Bearer) -> NodeConnection {
    Caller::new(node.client).bearing(bearer).line()
}

/// Opens streams on which nothing comes, and holds them to the end.
async fn silent(
    target: Target,
    time: Duration,
    path: &'static str,
    token: Option<String>,
) -> Result<String> {
    let begun = Instant::now();
    let mut held = Vec::new();
    let mut closed = 0;
    while begun.elapsed() < time {
        for node in &target.nodes {
            let token = token.as_deref();
            let call = (path, token);
            match Silent::open(node.client, call, CONNECTIONS, STREAMS, PATIENCE).await {
                Ok(opened) => held.push(opened),
                // A node may throw an attacker out, who goes on with other connections.
                Err(_) => closed += 1,
            }
        }
        // The newest are enough to fill the budgets.
        held.drain(..held.len().saturating_sub(2 * target.nodes.len()));
        tokio::task::yield_now().await;
    }
    let ended: usize = held.iter().map(Silent::ended).sum();
    let opened = held.len() * CONNECTIONS * STREAMS as usize;
    Ok(format!(
        "of the last {opened} streams {ended} were ended; {closed} times connections were closed"
    ))
}

/// Streams of strangers on which nothing comes.
pub(crate) async fn silent_streams(target: Target, time: Duration) -> Result<String> {
    silent(target, time, HEALTH, None).await
}

/// Exchange streams of one reader on which nothing comes.
pub(crate) async fn idle_exchanges(target: Target, time: Duration) -> Result<String> {
    let token = target.reader_text.clone();
    silent(target, time, EXCHANGE, Some(token)).await
}

/// Makes calls to each node, some at a time, and counts how they were refused.
async fn again<C, F>(target: &Target, time: Duration, together: usize, call: C) -> Result<String>
where
    C: Fn(&Listeners) -> F,
    F: Future<Output = Result<Status>>,
{
    let begun = Instant::now();
    let mut heard = std::collections::BTreeMap::<String, usize>::new();
    while begun.elapsed() < time {
        for node in &target.nodes {
            for status in join_all((0..together).map(|_| call(node))).await {
                let why = match status {
                    Ok(status) => reason(&status).map_or_else(
                        || format!("{:?}", status.code()),
                        |reason| reason.to_string(),
                    ),
                    Err(_) => "a broken connection".to_owned(),
                };
                *heard.entry(why).or_default() += 1;
            }
        }
    }
    let heard = heard.iter().map(|(why, count)| format!("{count} {why}"));
    Ok(heard.collect::<Vec<_>>().join(", "))
}

fn answered<T>(answer: Result<T, Status>) -> Status {
    answer
        .err()
        .unwrap_or_else(|| Status::ok("it was carried out"))
}

/// Messages of elements of two bytes each.
pub(crate) async fn tiny(target: Target, time: Duration) -> Result<String> {
    let message = tiny_elements(2, 8_000_000);
    again(&target, time, 4, |node| {
        let call = raw(line(node, &target.writer), TRANSACT, message.clone());
        async { Ok(answered(call.await)) }
    })
    .await
}

/// Reads that a confined caller has no right to, which name a long owner once: in turn a million
/// empty keys, in a message of 4 MB, and as many keys as are decoded, denied and recorded.
pub(crate) async fn owners(target: Target, time: Duration) -> Result<String> {
    const KEYS: [usize; 2] = [1_000_000, 300];
    let messages = KEYS.map(|keys| Bytes::from(long_owner(2 << 20, keys).encode_to_vec()));
    let turn = AtomicUsize::new(0);
    again(&target, time, 4, |node| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        let message = messages[turn % KEYS.len()].clone();
        let call = raw(line(node, &target.confined), BATCH_RETRIEVE, message);
        async { Ok(answered(call.await)) }
    })
    .await
}

/// Messages of which all but the last byte comes.
pub(crate) async fn begun(target: Target, time: Duration) -> Result<String> {
    let all = again(&target, time, 40, |node| {
        unfinished(line(node, &target.reader), BATCH_RETRIEVE, 8 << 20)
    });
    // Those that have room are refused only after their time.
    match tokio::time::timeout(time, all).await {
        Ok(heard) => heard,
        Err(_) => Ok("messages were held to the end".to_owned()),
    }
}

/// Large answers that are asked for in one message and not read.
pub(crate) async fn answers(target: Target, time: Duration) -> Result<String> {
    const KEYS: usize = 3;
    let begun = Instant::now();
    let writer = Caller::new(target.nodes[0].client).bearing(&target.writer);
    // Other attacks of the same tenant may have all of its room.
    let stored = store_all(&writer, KEYS, 1 << 20).await;
    let mut held = Vec::new();
    let mut refused = 0;
    while begun.elapsed() < time {
        for node in &target.nodes {
            match unread(node.client, &target.writer, 1_000, KEYS).await {
                Ok(answers) => held.push(answers),
                Err(_) => refused += 1,
            }
        }
        held.drain(..held.len().saturating_sub(8 * target.nodes.len()));
        tokio::task::yield_now().await;
    }
    let stored = if stored.is_ok() { "stored" } else { "refused" };
    Ok(format!(
        "{} streams unread, {refused} refused, values {stored}",
        held.len()
    ))
}

/// Calls that are refused at once, many in one message, of whose small answers nothing is read.
pub(crate) async fn refusals(target: Target, time: Duration) -> Result<String> {
    const CALLS: usize = 1_000;
    let begun = Instant::now();
    let mut held = Vec::new();
    let mut refused = 0;
    while begun.elapsed() < time {
        for node in &target.nodes {
            match unread_refusals(node.client, &target.reader, CALLS).await {
                Ok(answers) => held.push(answers),
                Err(_) => refused += 1,
            }
        }
        // The newest are enough to fill the places.
        held.drain(..held.len().saturating_sub(512 * target.nodes.len()));
        tokio::task::yield_now().await;
    }
    let streams = held.len();
    Ok(format!("{streams} streams unread, {refused} refused"))
}

/// Watches of all keys that are not read, while many keys with long names change.
pub(crate) async fn watches(target: Target, time: Duration) -> Result<String> {
    const WATCHES: usize = 128;
    const KEYS: usize = 128;
    let begun = Instant::now();
    let writer = Caller::new(target.nodes[0].client).bearing(&target.writer);
    let mut held = Vec::new();
    let (mut refused, mut changed) = (0, 0);
    while begun.elapsed() < time {
        for node in &target.nodes {
            match watches::unread(node.client, &target.writer, WATCHES).await {
                Ok(opened) => {
                    let before = held.len();
                    held.extend(opened.into_iter().flatten());
                    refused += WATCHES - (held.len() - before);
                }
                // A node may reset the connection while it begins.
                Err(_) => refused += WATCHES,
            }
            // Other attacks of the same tenant may have all of its room.
            changed += usize::from(watches::change(&writer, KEYS).await.is_ok()) * KEYS;
        }
        // The newest are enough to fill the places.
        held.drain(..held.len().saturating_sub(2 * WATCHES * target.nodes.len()));
    }
    let watches = held.len();
    Ok(format!(
        "{watches} watches unread, {refused} refused, {changed} keys changed"
    ))
}

/// Streams, unfinished messages and unread answers of the tenant `default`, whose rooms operators
/// once shared, beside silent streams of strangers.
pub(crate) async fn default_tenant(target: Target, time: Duration) -> Result<String> {
    let own = target.with_default_tenant();
    let (exchanges, messages, unread, strangers) = tokio::try_join!(
        idle_exchanges(own.clone(), time),
        begun(own.clone(), time),
        answers(own, time),
        silent_streams(target, time),
    )?;
    Ok([exchanges, messages, unread, strangers].join(", "))
}
