//! A node's disk key: it follows the data keys, comes with the first of them, and fits what was installed and recovered.

use std::fs;

use anyhow::{Result, ensure};
use helve_proto::v1::{Quotas, TokenRole, Unit, set_data_key_request::Target};
use helve_tests::{
    ledger::Ledger,
    promise,
    token::{grant, write_secret},
    wait::{Look, until},
};

use super::{
    Keys, all_under,
    edited::sealed_under,
    forged::{forged_token, refuses, stop, write},
    set_key,
};
use crate::{
    access::Guarded,
    nodes,
    recover::{recover, report},
    snapshot::{node_status, purge_beyond, votes},
};

#[tokio::test]
async fn a_disk_key_outlives_the_data_key_that_it_was_made_under() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(1).start().await?;
    let first = sealed_under(&cluster.caller(1)).await?;
    let disk_key = cluster.data_directory(1).join("disk-key");
    let made = fs::read(&disk_key)?;
    keys.add("2.key", 2)?;
    let second = until("the node to hold the new key", async || {
        match set_key(&cluster.caller(1), Target::Newest(Unit {})).await {
            Ok(reply) if reply.key_id != first => Look::Done(reply.key_id),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    all_under(&cluster, &second).await?;
    promise!(fs::read(&disk_key)? != made, "it is sealed as before");
    fs::remove_file(keys.0.path().join("1.key"))?;
    stop(&mut cluster, 1).await?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    // A key that was withdrawn too early is named.
    stop(&mut cluster, 1).await?;
    let path = keys.0.path().join("2.key");
    let aside = path.with_file_name(".2.key");
    fs::rename(&path, &aside)?;
    keys.add("3.key", 3)?;
    let said = refuses(&mut cluster, 1).await?;
    ensure!(
        said.contains(&second) && said.contains("sealed against changes under key"),
        "{said}"
    );
    fs::rename(&aside, &path)?;
    cluster.start(1)?;
    cluster.ready(1).await
}

#[tokio::test]
async fn a_node_that_holds_nothing_yet_takes_the_right_data_key_after_a_wrong_one() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(3).start().await?;
    stop(&mut cluster, 3).await?;
    cluster.wipe(3)?;
    // Alone it waits for the others, and takes part in nothing.
    for seat in [1, 2] {
        stop(&mut cluster, seat).await?;
    }
    let (right, wrong) = (keys.0.path().display().to_string(), tempfile::tempdir()?);
    write_secret(&wrong.path().join("1.key"), &[7; 32])?;
    let wrong_path = wrong.path().display().to_string();
    cluster.node_mut(3).set("HELVE_DATA_KEYS", &wrong_path);
    cluster.start(3)?;
    let log = cluster.data_directory(3).join("raft");
    until("a log", async || match log.exists() {
        true => Look::Done(()),
        false => Look::NotYet(cluster.node(3).log_tail()),
    })
    .await?;
    stop(&mut cluster, 3).await?;
    cluster.node_mut(3).set("HELVE_DATA_KEYS", &right);
    for seat in [1, 2, 3] {
        cluster.start(seat)?;
    }
    for seat in [1, 2, 3] {
        cluster.ready(seat).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_gets_a_data_key_later_is_guarded_from_then_on() -> Result<()> {
    let keys = Keys::new()?;
    let mut guarded = Guarded::of(nodes(1)).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    guarded
        .token(grant("acme", TokenRole::Reader, "shop"))
        .await?;
    let directory = keys.0.path().display().to_string();
    let cluster = &mut guarded.cluster;
    stop(cluster, 1).await?;
    cluster.node_mut(1).set("HELVE_DATA_KEYS", &directory);
    let said = refuses(cluster, 1).await?;
    ensure!(
        said.contains("have no disk key") && said.contains("--data-key-migrate"),
        "{said}"
    );
    cluster.node_mut(1).set("HELVE_DATA_KEY_MIGRATE", "true");
    cluster.start(1)?;
    cluster.ready(1).await?;
    sealed_under(&cluster.caller(1)).await?;
    cluster.node_mut(1).set("HELVE_DATA_KEY_MIGRATE", "false");
    stop(cluster, 1).await?;
    let image = cluster.take_image(1)?;
    write(&cluster.data_directory(1), vec![forged_token()?], 0)?;
    let said = refuses(cluster, 1).await?;
    ensure!(said.contains("does not fit its disk key"), "{said}");
    cluster.put_image_back(1, &image)?;
    cluster.start(1)?;
    cluster.ready(1).await
}

#[tokio::test]
async fn a_directory_is_adopted_under_the_key_of_its_cluster_alone() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(1).start().await?;
    let held = sealed_under(&cluster.caller(1)).await?;
    stop(&mut cluster, 1).await?;
    // As an earlier version left it.
    fs::remove_file(cluster.data_directory(1).join("disk-key"))?;
    let (right, wrong) = (keys.0.path().display().to_string(), tempfile::tempdir()?);
    write_secret(&wrong.path().join("1.key"), &[7; 32])?;
    let wrong_path = wrong.path().display().to_string();
    cluster.node_mut(1).set("HELVE_DATA_KEYS", &wrong_path);
    cluster.node_mut(1).set("HELVE_DATA_KEY_MIGRATE", "true");
    let said = refuses(&mut cluster, 1).await?;
    ensure!(said.contains(&held), "{said}");
    cluster.node_mut(1).set("HELVE_DATA_KEYS", &right);
    cluster.start(1)?;
    cluster.ready(1).await
}

#[tokio::test]
async fn what_a_node_installed_fits_its_own_disk_key() -> Result<()> {
    let keys = Keys::new()?;
    let setup = keys.setup().with("HELVE_SNAPSHOT_ENTRIES", "50");
    let mut cluster = setup.with("HELVE_LOG_KEEP_ENTRIES", "10").start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let leader = cluster.leader().await?.seat;
    let lagging = cluster.others(leader)[0];
    let last = node_status(&cluster, lagging).await?.last_log_index;
    cluster.kill(lagging)?;
    purge_beyond(&cluster, &ledger, last).await?;
    cluster.start(lagging)?;
    cluster.ready(lagging).await?;
    ledger.check(&cluster).await?;
    let status = node_status(&cluster, lagging).await?;
    promise!(status.snapshot_index > last, "no snapshot: {status:?}");
    // The rows that were installed, and the snapshot that is kept of them, are checked at each start.
    cluster.kill(lagging)?;
    cluster.start(lagging)?;
    cluster.ready(lagging).await?;
    ledger.check(&cluster).await?;
    stop(&mut cluster, lagging).await?;
    write(&cluster.data_directory(lagging), vec![forged_token()?], 0)?;
    let said = refuses(&mut cluster, lagging).await?;
    ensure!(said.contains("does not fit its disk key"), "{said}");
    cluster.wipe(lagging)?;
    cluster.start(lagging)?;
    votes(&cluster, leader, lagging).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_survivor_with_a_disk_key_is_recovered_with_its_data_keys() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup().start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    // What was acknowledged is held by a majority, and maybe not yet by the survivor.
    ledger.check(&cluster).await?;
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    for seat in [2, 3] {
        cluster.empty(seat)?;
    }
    let keyless = recover(&cluster, 1, &["--from-survivor"]).await?;
    let said = String::from_utf8_lossy(&keyless.stderr);
    ensure!(
        keyless.status.code() == Some(2) && said.contains("--data-key-file"),
        "{said}"
    );
    let directory = keys.0.path().display().to_string();
    let flags = ["--from-survivor", "--data-keys", &directory];
    let image = cluster.take_image(1)?;
    write(&cluster.data_directory(1), vec![forged_token()?], 0)?;
    let edited = recover(&cluster, 1, &flags).await?;
    let said = String::from_utf8_lossy(&edited.stderr);
    ensure!(
        edited.status.code() == Some(2) && said.contains("does not fit its disk key"),
        "{said}"
    );
    cluster.put_image_back(1, &image)?;
    let disk_key = cluster.data_directory(1).join("disk-key");
    fs::remove_file(&disk_key)?;
    let planned = report(&recover(&cluster, 1, &flags[1..]).await?)?;
    ensure!(
        planned["may_be_lost"]
            .to_string()
            .contains("`disk-key` was removed"),
        "{planned}"
    );
    cluster.put_image_back(1, &image)?;
    let planned = report(&recover(&cluster, 1, &flags[1..]).await?)?;
    ensure!(
        !planned["may_be_lost"].to_string().contains("disk-key"),
        "{planned}"
    );
    report(&recover(&cluster, 1, &flags).await?)?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await
}
