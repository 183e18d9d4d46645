//! Reads back from each node, and judges what it holds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::future::join_all;
use helve_command::{
    cluster::{self, ClusterArgs},
    ending::Ending,
};
use helve_mcp::flow::{Accounts, Findings, Held, judge};

/// A call whose client gave up may still be under way at a server, so that a node is between two states. What is then found wrong
/// is looked at again, so often and after such pauses; what was lost stays lost.
const LOOKS_MAX: u32 = 6;
const LOOK_PAUSE: Duration = Duration::from_secs(2);

/// What all nodes together say.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) findings: Findings,
    /// Endpoints that were read from.
    pub(super) read: Vec<String>,
    /// Endpoints that could not be read from, and why.
    pub(super) unread: BTreeMap<String, String>,
    /// Records that are neither carts nor orders, and were left out.
    pub(super) unreadable: BTreeSet<String>,
}

/// Reads from each endpoint alone, leaves out the carts that were there `before`, and compares.
///
/// # Errors
/// If an endpoint is no address.
pub(super) async fn judge_all(
    cluster: &ClusterArgs,
    store: &str,
    accounts: &Accounts,
    before: &BTreeSet<String>,
) -> Result<Judged, Ending> {
    let mut looks = 1;
    loop {
        let judged = judge_once(cluster, store, accounts, before).await?;
        if judged.findings.is_clean() || accounts.gave_up.is_empty() || looks == LOOKS_MAX {
            return Ok(judged);
        }
        looks += 1;
        tracing::info!("some flows gave up: reading again what they may still be changing");
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

async fn judge_once(
    cluster: &ClusterArgs,
    store: &str,
    accounts: &Accounts,
    before: &BTreeSet<String>,
) -> Result<Judged, Ending> {
    let reads = cluster.endpoints.iter().map(|endpoint| async move {
        let alone = ClusterArgs {
            endpoints: vec![endpoint.clone()],
            ..cluster.clone()
        };
        let held = Held::read(&cluster::client(&alone)?, store).await;
        Ok::<_, Ending>((endpoint.clone(), held))
    });
    let mut judged = Judged::default();
    for read in join_all(reads).await {
        let (endpoint, held) = read?;
        match held {
            Ok(held) => {
                judged
                    .findings
                    .merge(judge(accounts, &held.clone().without(before)));
                judged.unreadable.extend(held.unreadable);
                judged.read.push(endpoint);
            }
            Err(error) => {
                judged.unread.insert(endpoint, error.to_string());
            }
        }
    }
    Ok(judged)
}
