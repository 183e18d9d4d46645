//! Calls that are sent twice, late and out of order, through different nodes: what a network that doubles and delays requests, or a
//! client that lost an answer, makes of them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use helve_proto::v1::{HandleStatus, MintRequest, TakeRequest};
use rand::{
    RngExt as _, SeedableRng as _,
    rngs::SmallRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use tokio::{sync::watch, task::JoinHandle, time::sleep};
use tonic::{Code, async_trait};

use super::{Fault, Seen, nudge::STORE};
use crate::{
    caller::{Caller, new_identity},
    cluster::Cluster,
    wait::{Look, until},
};

/// Handles in a round, each minted and taken several times.
const HANDLES: usize = 8;
/// How often each call is sent.
const COPIES: usize = 3;
/// How late the last copy of a round is, at most.
const LATE: Duration = Duration::from_secs(2);

/// What was seen so far.
#[derive(Debug, Clone, Default)]
struct Tally {
    /// Calls that were answered, each by several copies.
    answered: u64,
    /// Copies beyond the first that were answered.
    copies: u64,
    /// What must not be.
    broken: Vec<String>,
}

/// Mutations of its own, each sent several times under one identity, until it is healed.
#[derive(Debug, Default)]
pub struct DoubledCalls {
    running: Option<(JoinHandle<()>, watch::Receiver<Tally>)>,
}

#[async_trait(?Send)]
impl Fault for DoubledCalls {
    fn name(&self) -> &'static str {
        "doubled-calls"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let callers: Vec<Caller> = cluster
            .seats()
            .into_iter()
            .map(|seat| cluster.caller(seat))
            .collect();
        let (told, tally) = watch::channel(Tally::default());
        let own = SmallRng::seed_from_u64(rng.random());
        self.running = Some((tokio::spawn(send(callers, told, own)), tally.clone()));
        let seen = until("doubled calls to be answered", async || {
            match tally.borrow().clone() {
                tally if tally.copies >= 2 * HANDLES as u64 => Look::Done(tally),
                tally => Look::NotYet(format!("{tally:?}")),
            }
        })
        .await?;
        Ok(Seen::one(format!(
            "{} calls answered, and {} copies of them",
            seen.answered, seen.copies
        )))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        if let Some((task, tally)) = self.running.take() {
            task.abort();
            // Its end is its abortion.
            drop(task.await);
            let broken = tally.borrow().broken.clone();
            ensure!(
                broken.is_empty(),
                "copies were not answered alike: {broken:?}"
            );
        }
        cluster.all_ready().await
    }
}

impl Drop for DoubledCalls {
    fn drop(&mut self) {
        if let Some((task, _)) = &self.running {
            task.abort();
        }
    }
}

/// One call of a round: its handle is the position in the round.
#[derive(Debug, Clone)]
enum Call {
    Mint(MintRequest),
    Take(TakeRequest),
}

impl Call {
    /// What it came to, so that copies can be compared; an error says whether it settles anything.
    async fn send(&self, caller: &Caller) -> Result<String, tonic::Status> {
        match self {
            Self::Mint(request) => {
                let reply = caller.mint(request.clone()).await?;
                Ok(reply.info.unwrap_or_default().name)
            }
            Self::Take(request) => {
                let reply = caller.take(request.clone()).await?;
                let value = String::from_utf8_lossy(&reply.value).into_owned();
                Ok(format!("{:?} {value}", reply.status()))
            }
        }
    }
}

async fn send(callers: Vec<Caller>, told: watch::Sender<Tally>, mut rng: SmallRng) {
    loop {
        let mints = (0..HANDLES).map(|number| {
            Call::Mint(MintRequest {
                identity: Some(new_identity()),
                store: STORE.to_owned(),
                value: format!("value {number}").into(),
                ..MintRequest::default()
            })
        });
        let minted = round(mints.collect(), &callers, &told, &mut rng).await;
        let takes = minted.values().map(|id| {
            Call::Take(TakeRequest {
                identity: Some(new_identity()),
                store: STORE.to_owned(),
                id: id.clone(),
                ..TakeRequest::default()
            })
        });
        let taken = round(takes.collect(), &callers, &told, &mut rng).await;
        let live = format!("{:?} value", HandleStatus::Live);
        for answer in taken.values().filter(|answer| !answer.starts_with(&live)) {
            told.send_modify(|tally| tally.broken.push(format!("a take came to {answer}")));
        }
    }
}

/// Sends copies of all calls in any order, each to any node and at any time. Answers what each call came to, by its position.
async fn round(
    calls: Vec<Call>,
    callers: &[Caller],
    told: &watch::Sender<Tally>,
    rng: &mut SmallRng,
) -> BTreeMap<usize, String> {
    let mut copies: Vec<usize> = (0..calls.len()).flat_map(|call| [call; COPIES]).collect();
    copies.shuffle(rng);
    let sent = copies.into_iter().filter_map(|call| {
        let (caller, late) = (callers.choose(rng)?, LATE.mul_f64(rng.random()));
        let request = &calls[call];
        Some(async move {
            sleep(late).await;
            (call, request.send(caller).await)
        })
    });
    let answers = futures::future::join_all(sent.collect::<Vec<_>>()).await;
    let mut first = BTreeMap::new();
    for (call, answer) in answers {
        match answer {
            Ok(answer) => told.send_modify(|tally| match first.get(&call) {
                None => {
                    tally.answered += 1;
                    first.insert(call, answer);
                }
                Some(known) if *known == answer => tally.copies += 1,
                Some(known) => {
                    let broken = format!("{:?}: {known}, then {answer}", calls[call]);
                    tally.broken.push(broken);
                }
            }),
            // Not known, or not now: nothing that contradicts another copy.
            Err(status) if is_open(status.code()) => {}
            Err(status) => told.send_modify(|tally| {
                tally.broken.push(format!("{:?}: {status}", calls[call]));
            }),
        }
    }
    first
}

fn is_open(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::Unknown
            | Code::ResourceExhausted
    )
}
