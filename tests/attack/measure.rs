//! What honest callers and operators get done.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use helve_proto::{
    Reason,
    v1::{GetRequest, ListTenantsRequest, MintRequest},
};
use helve_tests::{
    caller::{Caller, reason},
    cluster::Cluster,
};
use serde::Serialize;
use tokio::task::JoinSet;

/// Honest calls under way at once on each node.
const CALLS_TOGETHER: usize = 4;

/// The honest tenant's callers, one for each node.
pub(crate) struct Honest {
    callers: Arc<Vec<Caller>>,
}

impl Honest {
    pub(crate) fn new(callers: Vec<Caller>) -> Self {
        Self {
            callers: Arc::new(callers),
        }
    }
}

/// Calls that were answered, and that were not.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Calls {
    pub(crate) per_second: f64,
    pub(crate) failed: usize,
    /// Of these, calls that were refused because they could not be recorded.
    pub(crate) unrecorded: usize,
    /// How the last one failed.
    pub(crate) last_failure: Option<String>,
}

/// Mints through one node and reads through the next, for a time.
pub(crate) async fn calls(honest: &Honest, time: Duration) -> Calls {
    let begun = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..CALLS_TOGETHER * honest.callers.len() {
        let callers = Arc::clone(&honest.callers);
        workers.spawn(async move {
            let (mut done, mut failed, mut unrecorded) = (0_usize, 0_usize, 0_usize);
            let mut last = None;
            while begun.elapsed() < time {
                match mint_and_get(&callers, worker).await {
                    Ok(()) => done += 2,
                    Err(status) => {
                        failed += 1;
                        unrecorded += usize::from(reason(&status) == Some(Reason::AuditFailing));
                        last = Some(status.to_string());
                    }
                }
            }
            (done, failed, unrecorded, last)
        });
    }
    let mut calls = Calls::default();
    let mut done = 0_usize;
    while let Some(worker) = workers.join_next().await {
        match worker {
            Ok((answered, failed, unrecorded, last)) => {
                done += answered;
                calls.failed += failed;
                calls.unrecorded += unrecorded;
                calls.last_failure = last.or(calls.last_failure);
            }
            Err(error) => calls.last_failure = Some(error.to_string()),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "it is a rate, for people")]
    let done = done as f64;
    calls.per_second = done / begun.elapsed().as_secs_f64();
    calls
}

async fn mint_and_get(callers: &[Caller], worker: usize) -> Result<(), tonic::Status> {
    let (here, there) = (
        &callers[worker % callers.len()],
        &callers[(worker + 1) % callers.len()],
    );
    let minted = here
        .mint(MintRequest {
            store: "cart".to_owned(),
            owner: "ann".to_owned(),
            value: "{}".into(),
            ..MintRequest::default()
        })
        .await?;
    let id = minted.info.unwrap_or_default().name;
    there
        .get(GetRequest {
            store: "cart".to_owned(),
            owner: "ann".to_owned(),
            id,
        })
        .await?;
    Ok(())
}

/// Whether an operator gets in on each node all the time, and sees the tenant that attacks; if not,
/// how a call failed.
pub(crate) async fn operator(
    cluster: &Cluster,
    tenant: &str,
    time: Duration,
) -> Result<usize, String> {
    let begun = Instant::now();
    let mut calls = 0;
    while calls == 0 || begun.elapsed() < time {
        for seat in cluster.seats() {
            let caller = cluster.caller(seat);
            let status = caller.status().await;
            status.map_err(|status| format!("node {seat}: {status}"))?;
            let listed = caller.list_tenants(ListTenantsRequest::default()).await;
            let listed = listed.map_err(|status| format!("node {seat}: {status}"))?;
            if listed.tenants.iter().all(|info| info.tenant != tenant) {
                return Err(format!("node {seat} does not list the tenant {tenant}"));
            }
            calls += 2;
        }
    }
    Ok(calls)
}
