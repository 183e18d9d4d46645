//! A node with a disk key that dies between any two steps on its disk starts again.

use std::{fs, os::unix::process::ExitStatusExt as _};

use anyhow::Result;
use helve_node::failpoint::Failpoint;
use helve_proto::v1::{Quotas, TakeSnapshotRequest};
use helve_tests::{
    cluster::Cluster,
    failpoints::{arm, disarm, watch},
    promise,
    wait::{Look, until},
};
use rustix::process::Signal;

use super::{edited::sealed_under, forged::stop, keys::Keys};
use crate::{access::Guarded, nodes};

/// The steps that only a node with a disk key passes.
pub(crate) const STEPS: [Failpoint; 5] = [
    Failpoint::SnapshotMarked,
    Failpoint::DiskKeyBeforeWrite,
    Failpoint::DiskKeyWritten,
    Failpoint::RowsAdopted,
    Failpoint::LogAdopted,
];

/// Those of a node that writes, takes snapshots and purges its log.
const RUNNING: [Failpoint; 12] = [
    Failpoint::LogBeforeWrite,
    Failpoint::LogBeforeAck,
    Failpoint::OutcomeBeforeAnswer,
    Failpoint::ApplyBeforeWrite,
    Failpoint::ApplyAfterWrite,
    Failpoint::BuildCheckpointed,
    Failpoint::BuildDescribed,
    Failpoint::SnapshotMarked,
    Failpoint::BuildPublished,
    Failpoint::FileBeforeRename,
    Failpoint::PurgeBeforeWrite,
    Failpoint::PurgeAfterWrite,
];

const SCRIPT: &str = "HELVE_FAILPOINT";
const MIGRATE: &str = "HELVE_DATA_KEY_MIGRATE";

async fn dies(cluster: &mut Cluster, point: Failpoint) -> Result<()> {
    let status = cluster.node_mut(1).stopped().await?;
    let log = cluster.node(1).log_tail();
    let said = format!("failpoint {}: Kill", point.as_str());
    promise!(
        status.signal() == Some(Signal::KILL.as_raw()) && log.contains(&said),
        "{status}: {log}"
    );
    Ok(())
}

async fn starts(cluster: &mut Cluster) -> Result<()> {
    cluster.node_mut(1).set(SCRIPT, "");
    cluster.start(1)?;
    cluster.ready(1).await
}

/// Starts a node that dies at a step of its start, and then one that does not.
async fn dies_at_start(cluster: &mut Cluster, point: Failpoint) -> Result<()> {
    let script = format!("{}=kill", point.as_str());
    cluster.node_mut(1).set(SCRIPT, &script);
    cluster.start(1)?;
    dies(cluster, point).await?;
    starts(cluster).await
}

#[tokio::test]
async fn a_node_with_a_disk_key_that_dies_at_any_step_starts_again() -> Result<()> {
    let keys = Keys::new()?;
    let setup = keys.setup_of(1).with("HELVE_SNAPSHOT_ENTRIES", "30");
    let setup = setup.with("HELVE_LOG_KEEP_ENTRIES", "10");
    let mut guarded = Guarded::of(setup).await?;
    sealed_under(&guarded.operator(1)).await?;
    stop(&mut guarded.cluster, 1).await?;
    watch(&mut guarded.cluster, 1);
    starts(&mut guarded.cluster).await?;
    for (turn, point) in RUNNING.into_iter().enumerate() {
        let script = format!("{}=kill", point.as_str());
        arm(&guarded.cluster, 1, &script)?;
        let mut rows = 0;
        until(
            &format!("node 1 to die at {}", point.as_str()),
            async || {
                if guarded.cluster.node_mut(1).assert_running().is_err() {
                    return Look::Done(());
                }
                rows += 1;
                let quotas = Quotas {
                    rows,
                    ..Quotas::default()
                };
                let tenant = format!("tenant-{turn}-{}", rows % 3);
                let changed = guarded.tenant(&tenant, quotas).await;
                let operator = guarded.operator(1);
                let taken = operator.take_snapshot(TakeSnapshotRequest {}).await;
                Look::NotYet(format!("{changed:?}, {taken:?}"))
            },
        )
        .await?;
        dies(&mut guarded.cluster, point).await?;
        disarm(&guarded.cluster, 1)?;
        starts(&mut guarded.cluster).await?;
        // What it wrote since is as whole as what it found.
        guarded.tenant("after", Quotas::default()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_dies_while_its_data_keys_change_starts_with_either() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(1).start().await?;
    sealed_under(&cluster.caller(1)).await?;
    for (turn, point) in [Failpoint::DiskKeyBeforeWrite, Failpoint::DiskKeyWritten]
        .into_iter()
        .enumerate()
    {
        stop(&mut cluster, 1).await?;
        // At a start that finds a newer key.
        let name = format!("{}.key", 2 * turn + 2);
        keys.add(&name, u8::try_from(2 * turn + 2)?)?;
        dies_at_start(&mut cluster, point).await?;
        // While it runs.
        stop(&mut cluster, 1).await?;
        let script = format!("{}=kill", point.as_str());
        cluster.node_mut(1).set(SCRIPT, &script);
        cluster.start(1)?;
        cluster.ready(1).await?;
        let name = format!("{}.key", 2 * turn + 3);
        keys.add(&name, u8::try_from(2 * turn + 3)?)?;
        dies(&mut cluster, point).await?;
        // The newest file may not be there yet when it is started again.
        let path = keys.0.path().join(&name);
        let aside = path.with_file_name(format!(".{name}"));
        fs::rename(&path, &aside)?;
        starts(&mut cluster).await?;
        fs::rename(&aside, &path)?;
        stop(&mut cluster, 1).await?;
        starts(&mut cluster).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_dies_while_it_gets_its_disk_key_takes_all_up_again() -> Result<()> {
    for point in [Failpoint::RowsAdopted, Failpoint::LogAdopted] {
        let keys = Keys::new()?;
        let mut guarded = Guarded::of(nodes(1)).await?;
        guarded.tenant("acme", Quotas::default()).await?;
        let cluster = &mut guarded.cluster;
        cluster
            .caller(1)
            .take_snapshot(TakeSnapshotRequest {})
            .await?;
        stop(cluster, 1).await?;
        let directory = keys.0.path().display().to_string();
        cluster.node_mut(1).set("HELVE_DATA_KEYS", &directory);
        cluster.node_mut(1).set(MIGRATE, "true");
        dies_at_start(cluster, point).await?;
        sealed_under(&cluster.caller(1)).await?;
        stop(cluster, 1).await?;
        cluster.node_mut(1).set(MIGRATE, "false");
        starts(cluster).await?;
    }
    Ok(())
}
