//! The load of a run: its clients, and the callers of its workloads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use helve_client::{Client, ClusterBuilder};
use helve_tests::{
    cluster::Cluster,
    history::History,
    promise::{Broken, is_broken},
    wait::{Look, PATIENCE, until},
    workload::{self, Harm, Harmed, Tally, Worker, Workload},
};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng, seq::SliceRandom as _};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::plan::Plan;

/// Clients that know every node; there are as many more that know one each.
const ROAMERS: u64 = 3;
/// Callers of each workload.
const CALLERS: u64 = 4;
/// Answers that each workload must have before each strike, and after the last.
const ANSWERS_BETWEEN: u64 = 10;
/// Answers that each workload must have had for its run to count.
const ANSWERS_MIN: u64 = 20;
/// Short, so that callers do give up while nodes are broken, and leave calls in doubt.
const DEADLINE: Duration = Duration::from_secs(2);
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(700);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
/// How long callers may take to end: a turn of theirs makes few calls, each with its deadline.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// Clients that together go through every node, and record what they ask and are told.
pub(crate) fn clients(
    cluster: &Cluster,
    history: &Arc<History>,
    rng: &mut SmallRng,
) -> Result<Arc<[Client]>> {
    let all = cluster.endpoints();
    let roaming = (0..ROAMERS).map(|_| {
        let mut endpoints = all.clone();
        endpoints.shuffle(rng);
        endpoints
    });
    let mut endpoints: Vec<Vec<String>> = all.iter().map(|one| vec![one.clone()]).collect();
    endpoints.extend(roaming);
    let plain: Vec<Client> = endpoints
        .iter()
        .zip(1..)
        .map(|(endpoints, number)| client(endpoints, number))
        .collect::<Result<_, _>>()?;
    let others: Arc<[Client]> = plain.clone().into();
    let clients = endpoints.into_iter().zip(plain).zip(1..);
    let clients = clients.map(|((endpoints, plain), number)| {
        let name = endpoints.join(",");
        let between = cluster.between().client(
            plain,
            Arc::clone(&others),
            move || client(&endpoints, number),
            SmallRng::from_rng(rng),
        );
        history.record(between, number, &name)
    });
    Ok(clients.collect())
}

/// Calls can travel in two ways: every second client shows the other one.
fn client(endpoints: &[String], number: u64) -> Result<Client, helve_client::Error> {
    let builder = ClusterBuilder::new(endpoints)
        .deadline(DEADLINE)
        .attempt_timeout(ATTEMPT_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT);
    match number % 2 {
        0 => builder.build(),
        _ => builder.unary().build(),
    }
}

/// Workloads under way.
pub(crate) struct Load {
    workloads: Vec<Running>,
    callers: JoinSet<Result<()>>,
    stop: watch::Sender<bool>,
    /// A caller has ended before it was to: why, it says when it is stopped.
    has_failed: Arc<AtomicBool>,
}

struct Running {
    workload: Arc<dyn Workload>,
    tally: Arc<Tally>,
}

impl Load {
    /// Lays out what the workloads need and lets their callers loose.
    pub(crate) async fn begin(plan: &Plan, clients: &Arc<[Client]>) -> Result<Self> {
        let mut rng = SmallRng::seed_from_u64(plan.seeds.callers);
        let mut load = Self {
            workloads: Vec::new(),
            callers: JoinSet::new(),
            stop: watch::Sender::new(false),
            has_failed: Arc::default(),
        };
        let patient = clients.first().context("a run has clients")?;
        let patient = patient.with_deadline(PATIENCE);
        for name in &plan.workloads {
            let workload: Arc<dyn Workload> = workload::named(name)?.into();
            workload
                .begin(&patient)
                .await
                .with_context(|| format!("{name} could not begin"))?;
            load.workloads.push(Running {
                workload,
                tally: Arc::default(),
            });
        }
        let mut number = 0;
        for running in &load.workloads {
            for _ in 0..CALLERS {
                number += 1;
                let workload = Arc::clone(&running.workload);
                let mut worker = Worker::new(
                    Arc::clone(clients),
                    number,
                    SmallRng::from_rng(&mut rng),
                    Duration::from_millis(rng.random_range(30..90)),
                    load.stop.subscribe(),
                    Arc::clone(&running.tally),
                );
                let has_failed = Arc::clone(&load.has_failed);
                load.callers.spawn(async move {
                    while worker.goes_on().await {
                        let turned = workload.turn(&mut worker).await;
                        turned.inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
                    }
                    Ok(())
                });
            }
        }
        Ok(load)
    }

    /// Waits until each workload has been answered some more times, so that no strike meets an idle cluster, however slow it is. Does
    /// not wait for callers that have failed.
    ///
    /// # Errors
    ///
    /// [`Broken`] if one is not: nothing is broken at the time.
    pub(crate) async fn answered(&self) -> Result<()> {
        for Running { workload, tally } in &self.workloads {
            let enough = tally.done() + ANSWERS_BETWEEN;
            let what = format!("{} to be answered", workload.name());
            let answered = until(&what, async || match tally.done() {
                done if done >= enough || self.has_failed.load(Ordering::Relaxed) => Look::Done(()),
                done => Look::NotYet(format!("{done} of {enough} answers")),
            });
            answered
                .await
                .map_err(|error| Broken::new(format!("nothing is broken now, but {error:#}")))?;
        }
        Ok(())
    }

    /// Stops the callers, and waits for the calls that they have under way. Promises that they found broken are answered.
    ///
    /// # Errors
    ///
    /// If a caller failed otherwise, or a call does not come back.
    pub(crate) async fn stop(&mut self) -> Result<Vec<Harmed>> {
        self.stop.send_replace(true);
        let ended = timeout(STOP_LIMIT, self.ended()).await;
        ended.unwrap_or_else(|_| {
            let callers = self.callers.len();
            self.callers.abort_all();
            bail!("{callers} callers wait after {STOP_LIMIT:?} for calls that never come back")
        })
    }

    async fn ended(&mut self) -> Result<Vec<Harmed>> {
        let mut harmed = Vec::new();
        while let Some(ended) = self.callers.join_next().await {
            match ended.context("a caller panicked")? {
                Ok(()) => {}
                Err(error) if is_broken(&error) => {
                    harmed.push(Harmed::new(Harm::Wrong, format!("{error:#}")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(harmed)
    }

    /// What the workloads themselves find wrong, when all has mended.
    pub(crate) async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let mut harmed = Vec::new();
        for Running { workload, .. } in &self.workloads {
            let checked = workload.check(client).await;
            harmed.extend(checked.map_err(|error| {
                let name = workload.name();
                Broken::new(format!(
                    "all was mended, but {name} cannot be checked: {error:#}"
                ))
            })?);
        }
        Ok(harmed)
    }

    /// Workloads that were not answered often enough to show anything.
    pub(crate) fn idle(&self) -> Vec<String> {
        let idle = |running: &&Running| running.tally.done() < ANSWERS_MIN;
        self.workloads
            .iter()
            .filter(idle)
            .map(|Running { workload, tally }| {
                let (name, done) = (workload.name(), tally.done());
                format!("{name} was answered {done} times only, {ANSWERS_MIN} are needed")
            })
            .collect()
    }
}
