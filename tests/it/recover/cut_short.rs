//! A recovery that is killed in the middle: the same command goes on from there.

use std::{fs, os::unix::process::ExitStatusExt as _};

use anyhow::{Context as _, Result};
use helve_node::failpoint::Failpoint;
use helve_tests::{cluster::Cluster, ledger::Ledger, promise};
use rustix::process::Signal;
use serde_json::Value;

use super::{super::nodes, every_node_holds, mint, recover, report};

/// Each durable step of a recovery. Some are passed several times.
pub(crate) const STEPS: [Failpoint; 7] = [
    Failpoint::FileBeforeRename,
    Failpoint::RecoveryBegun,
    Failpoint::RecoveryApplied,
    Failpoint::RecoveryNamed,
    Failpoint::PurgeBeforeWrite,
    Failpoint::PurgeAfterWrite,
    Failpoint::RecoveryPurged,
];

/// What a killed recovery left behind.
struct Cut {
    step: Failpoint,
    /// At which passage of the step it was killed.
    nth: usize,
}

/// Whether the node's identity says that a recovery is under way.
fn is_under_way(cluster: &Cluster) -> Result<bool> {
    let identity = fs::read(cluster.data_directory(1).join("node.json"))?;
    let identity: Value = serde_json::from_slice(&identity)?;
    let recovering = identity["recovering"].as_bool();
    recovering.context("an identity says whether a recovery is under way")
}

/// Kills a recovery at a passage of a step. Returns whether it came so far.
async fn cut(cluster: &Cluster, cut: &Cut) -> Result<bool> {
    let script = format!("{}=kill:{}", cut.step.as_str(), cut.nth);
    let output = recover(cluster, 1, &["--from-survivor", "--failpoint", &script]).await?;
    let is_killed = output.status.signal() == Some(Signal::KILL.as_raw());
    promise!(is_killed || output.status.success(), "{script}: {output:?}");
    Ok(is_killed)
}

/// The same command again ends what was begun, and the node serves all that it held.
async fn goes_on(cluster: &mut Cluster, cut: &Cut, ledger: &Ledger, rows: &Value) -> Result<()> {
    let at = format!("{} {}", cut.step.as_str(), cut.nth);
    let under_way = is_under_way(cluster)?;
    if under_way {
        cluster.start(1)?;
        let status = cluster.node_mut(1).stopped().await?;
        let log = cluster.node(1).log_tail();
        promise!(
            status.code() == Some(2) && log.contains("a recovery of this node was cut short"),
            "{at}: {status}: {log}"
        );
    }
    let done = report(&recover(cluster, 1, &["--from-survivor"]).await?)?;
    promise!(
        done["done"] == true && done["resumed"] == under_way && done["rows"] == *rows,
        "{at}: {done}, and {rows} rows were there"
    );
    let left_behind = done["left_behind"].as_array().cloned().unwrap_or_default();
    promise!(
        left_behind.iter().all(|node| node["seat"] != 1),
        "{at}: it is to empty the survivor itself: {done}"
    );
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(cluster).await?;
    cluster.kill(1)
}

#[tokio::test]
async fn a_recovery_that_is_killed_at_any_step_is_taken_up_by_the_same_command() -> Result<()> {
    let mut cluster = nodes(3)
        .with("HELVE_SNAPSHOT_ENTRIES", "50")
        .with("HELVE_LOG_KEEP_ENTRIES", "10")
        .start()
        .await?;
    let ledger = Ledger::new("carts");
    for _ in 0..3 {
        mint(&ledger, &cluster, &cluster.seats()).await?;
    }
    every_node_holds(&ledger, &cluster).await?;
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    let survivor = cluster.take_image(1)?;
    let whole = report(&recover(&cluster, 1, &["--from-survivor"]).await?)?;
    for step in STEPS {
        let mut passages = 0;
        for nth in 1.. {
            cluster.put_image_back(1, &survivor)?;
            let at = Cut { step, nth };
            if !cut(&cluster, &at).await? {
                break;
            }
            passages += 1;
            goes_on(&mut cluster, &at, &ledger, &whole["rows"]).await?;
        }
        promise!(passages > 0, "no recovery came by {}", step.as_str());
    }
    Ok(())
}
