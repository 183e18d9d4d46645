//! Any node takes writes, and any other reads them at once.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::Result;
use futures::future::try_join_all;
use helve_proto::{
    Reason,
    v1::{RetrieveRequest, StoreRequest, state_service_client::StateServiceClient},
};
use helve_tests::{
    caller::{Caller, new_identity, reason, word_of_node},
    cluster::{Cluster, Equipment},
    fault::{Fault as _, late_answers::LateAnswers},
    promise,
    promise::Broken,
    wait::{Look, until},
};
use rand::{SeedableRng as _, rngs::SmallRng};
use tokio::time::timeout;
use tonic::{Code, Request};

use super::nodes;

/// Rounds of a write and the reads after it: a node that reads without asking the leader lags behind in nearly each.
const ROUNDS: u64 = 50;

/// Leaders that are deposed.
const STRIKES: usize = 5;

/// Callers that read from each node meanwhile, and for how long each waits.
const READERS: usize = 4;
const READ_LIMIT: Duration = Duration::from_millis(700);

/// Writes through each node in turn, and reads each write from every node as soon as it is acknowledged.
pub(crate) async fn check_reads_after_writes(cluster: &Cluster) -> Result<()> {
    for round in 0..ROUNDS {
        for writer in cluster.seats() {
            let value = format!("{round} by {writer}");
            let request = StoreRequest {
                identity: Some(new_identity()),
                key: "counter".to_owned(),
                value: value.clone().into(),
                ..StoreRequest::default()
            };
            // On a busy machine the leader may change meanwhile.
            let caller = cluster.caller(writer);
            let written = until("a write to be acknowledged", async || {
                Look::of(caller.store(request.clone()).await)
            })
            .await?;
            let revision = written.info.unwrap_or_default().revision;
            for reader in cluster.seats() {
                let request = RetrieveRequest {
                    key: "counter".to_owned(),
                    ..RetrieveRequest::default()
                };
                let caller = cluster.caller(reader);
                let reply = until("a read to be answered", async || {
                    Look::of(caller.retrieve(request.clone()).await)
                })
                .await?;
                let found = reply.record.unwrap_or_default();
                promise!(
                    found.value == value.as_bytes()
                        && found.info.unwrap_or_default().revision == revision,
                    "node {reader} read {:?} after node {writer} had written {value:?}",
                    found.value
                );
                let index = reply.header.unwrap_or_default().index;
                promise!(
                    index >= revision,
                    "node {reader} read at index {index}, before the write at {revision}"
                );
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_node_reads_what_another_has_just_written() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_reads_after_writes(&cluster).await
}

/// Freezes the leader and a follower: the follower that is left must not answer.
pub(crate) async fn check_a_minority_is_silent(cluster: &Cluster) -> Result<()> {
    let leader = cluster.leader().await?.seat;
    check_is_silent_alone(cluster, cluster.others(leader)[0]).await
}

/// Freezes the followers: the leader that is left must not answer.
pub(crate) async fn check_a_leader_alone_is_silent(cluster: &Cluster) -> Result<()> {
    let leader = cluster.leader().await?.seat;
    check_is_silent_alone(cluster, leader).await
}

/// Freezes all others: what is left must not answer, neither reads nor writes.
async fn check_is_silent_alone(cluster: &Cluster, left: u64) -> Result<()> {
    let caller = cluster.caller(left);
    let store = StoreRequest {
        key: "a".to_owned(),
        value: "1".into(),
        ..StoreRequest::default()
    };
    caller.store(store.clone()).await?;
    for seat in cluster.others(left) {
        cluster.node(seat).freeze()?;
    }
    let retrieve = RetrieveRequest {
        key: "a".to_owned(),
        ..RetrieveRequest::default()
    };
    let mut client = StateServiceClient::new(caller.line());
    let read = word_of_node(client.retrieve(Request::new(retrieve))).await;
    let written = word_of_node(client.store(Request::new(store))).await;
    for seat in cluster.others(left) {
        cluster.node(seat).thaw()?;
    }
    for answer in [
        read.map(|reply| format!("{reply:?}")),
        written.map(|reply| format!("{reply:?}")),
    ] {
        let status = match answer {
            Err(status) => status,
            Ok(reply) => return Err(Broken::new(format!("a minority answered {reply}")).into()),
        };
        // The node itself says why, within the deadline.
        promise!(
            matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
                && matches!(reason(&status), Some(Reason::NoLeader | Reason::Ambiguous)),
            "a minority answered {status:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_node_without_a_majority_answers_unavailable_and_guesses_nothing() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_a_minority_is_silent(&cluster).await?;
    check_reads_after_writes(&healed(cluster).await?).await
}

#[tokio::test]
async fn a_leader_without_a_majority_answers_unavailable_and_guesses_nothing() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_a_leader_alone_is_silent(&cluster).await?;
    check_reads_after_writes(&healed(cluster).await?).await
}

/// Writes numbers that rise to a key of this caller's own until the end, and notes which was acknowledged last.
async fn count_up(caller: Caller, key: String, acknowledged: &AtomicU64) -> Result<()> {
    for number in 1_u64.. {
        let request = StoreRequest {
            key: key.clone(),
            value: number.to_string().into(),
            ..StoreRequest::default()
        };
        // What became of it is not known: the next number is higher all the same.
        if caller.store(request).await.is_ok() {
            acknowledged.store(number, Ordering::Release);
        }
    }
    Ok(())
}

/// Reads all keys until the end: none may be behind what was acknowledged before the read began.
async fn read_on(caller: Caller, counts: &[(String, AtomicU64)]) -> Result<()> {
    for (key, acknowledged) in counts.iter().cycle() {
        let floor = acknowledged.load(Ordering::Acquire);
        let request = RetrieveRequest {
            key: key.clone(),
            ..RetrieveRequest::default()
        };
        // One that began before a leader was deposed may see what was there then: there must be some that begin later.
        let Ok(Ok(reply)) = timeout(READ_LIMIT, caller.retrieve(request)).await else {
            continue;
        };
        let value = reply.record.unwrap_or_default().value;
        let read: u64 = match &value[..] {
            [] => 0,
            digits => std::str::from_utf8(digits)?.parse()?,
        };
        promise!(read >= floor, "{key} was {floor}, and is read as {read}");
    }
    Ok(())
}

/// Lets leaders be deposed while answers to what they sent before are on the way: what comes then must not pass for a quorum's word.
pub(crate) async fn check_late_answers_prove_nothing(
    cluster: &mut Cluster,
    strikes: usize,
) -> Result<()> {
    let callers: Vec<_> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
    let keys = (1..=callers.len()).map(|number| (format!("count-{number}"), AtomicU64::new(0)));
    let counts: Vec<_> = keys.collect();
    let written = callers.iter().zip(&counts);
    let writers =
        written.map(|(caller, (key, count))| count_up(caller.clone(), key.clone(), count));
    let read = callers.iter().flat_map(|caller| [caller; READERS]);
    let readers = read.map(|caller| read_on(caller.clone(), &counts));
    let mut rng = SmallRng::seed_from_u64(1);
    let striking = async {
        for _ in 0..strikes {
            println!("{}", LateAnswers.strike(cluster, &mut rng).await?);
        }
        Ok(())
    };
    tokio::select! {
        struck = striking => struck,
        written = try_join_all(writers) => written.map(drop),
        read = try_join_all(readers) => read.map(drop),
    }
}

#[tokio::test]
async fn answers_that_come_once_another_leads_prove_nothing() -> Result<()> {
    let mut cluster = nodes(3).on(Equipment::Network).start().await?;
    check_late_answers_prove_nothing(&mut cluster, STRIKES).await?;
    check_reads_after_writes(&cluster).await
}

async fn healed(mut cluster: Cluster) -> Result<Cluster> {
    cluster.all_ready().await?;
    cluster.leader().await?;
    Ok(cluster)
}
