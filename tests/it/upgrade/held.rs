//! An upgrade that an operator holds: both ways until the level is raised, and none back after that.

use anyhow::{Context as _, Result};
use helve_machine::{level::LEVELS, limits::FEATURE_LEVEL as OLD};
use helve_proto::v1::{
    SetUpgradeHoldRequest, Unit, cluster_service_client::ClusterServiceClient,
    set_upgrade_hold_request::Target,
};
use helve_tests::{
    cluster::Cluster,
    ledger::Ledger,
    wait::{Look, until},
};
use serde_json::Value;

use super::super::{
    command_line::{ABSENT, NOT_NOW, helve, printed},
    nodes,
};
use super::{NEW, REFUSED, every_node_says, recorded, set_level};

/// What `helve upgrade` says of a cluster, as JSON.
fn upgrade(cluster: &Cluster, command: &str) -> Result<Value> {
    let said = helve(cluster, &["upgrade", command, "--output", "json"])?;
    Ok(serde_json::from_str(&printed(&said))?)
}

/// A young cluster has risen to the level of its version.
async fn grown_up(cluster: &Cluster) -> Result<()> {
    every_node_says(cluster, "the level of this version", |reply| {
        reply.feature_level == OLD
    })
    .await
}

/// The node goes on as a version of this level, and is ready.
async fn becomes(cluster: &mut Cluster, seat: u64, level: u32) -> Result<()> {
    cluster.kill(seat)?;
    set_level(cluster.node_mut(seat), level);
    cluster.start(seat)?;
    cluster.ready(seat).await
}

/// Each node leads once: none of them may raise the level.
async fn every_node_leads(cluster: &Cluster) -> Result<()> {
    for seat in cluster.seats() {
        let id = cluster.status(seat).await?.node.context("a node")?.id;
        let to = id.to_string();
        until("the node to lead", async || match cluster.leader().await {
            Ok(leader) if leader.seat == seat => Look::Done(()),
            Ok(_) => Look::NotYet(format!(
                "{:?}",
                helve(cluster, &["leader", "transfer", "--to", &to])
            )),
            Err(error) => Look::NotYet(error.to_string()),
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn held_level_leads_back_until_finish_and_not_after() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    grown_up(&cluster).await?;
    becomes(&mut cluster, 1, NEW).await?;
    let held = upgrade(&cluster, "hold")?;
    assert_eq!(held["held"], true, "{held}");
    for seat in [2, 3] {
        becomes(&mut cluster, seat, NEW).await?;
    }
    // All support more, and are recorded with the level that they hold.
    recorded(&cluster, 0).await?;
    every_node_leads(&cluster).await?;
    for seat in cluster.seats() {
        ledger.mint(&[cluster.caller(seat)]).await?;
        assert_eq!(
            cluster.status(seat).await?.feature_level,
            OLD,
            "node {seat}"
        );
    }
    let page = printed(&helve(&cluster, &["upgrade", "status"])?);
    let forbids = format!("level {NEW} forbids: versions that support feature level {OLD} or less");
    assert!(page.contains(&forbids), "{page}");

    // Back to the version before, the node that was asked first, too, and no finish meanwhile.
    becomes(&mut cluster, 1, OLD).await?;
    ledger.mint(&[cluster.caller(1)]).await?;
    let refused = helve(&cluster, &["upgrade", "finish"])?;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(NOT_NOW), "{said}");
    let version = env!("CARGO_PKG_VERSION");
    let named = format!("node 1 runs version {version}, which supports feature level {OLD}");
    assert!(said.contains(&named), "{said}");
    becomes(&mut cluster, 1, NEW).await?;
    every_node_leads(&cluster).await?;
    assert_eq!(cluster.status(1).await?.feature_level, OLD);

    for _ in ["finish", "its repeat"] {
        let finished = upgrade(&cluster, "finish")?;
        assert_eq!(finished["feature_level"], NEW, "{finished}");
        assert_eq!(finished["held"], false, "{finished}");
    }
    ledger.check(&cluster).await?;
    old_version_is_refused(&mut cluster).await
}

/// The version before names the level, and its node's data is left as it is.
async fn old_version_is_refused(cluster: &mut Cluster) -> Result<()> {
    cluster.kill(1)?;
    set_level(cluster.node_mut(1), OLD);
    cluster.start(1)?;
    let status = cluster.node_mut(1).stopped().await?;
    let said = cluster.node(1).log_tail();
    assert_eq!(status.code(), Some(REFUSED), "{said}");
    assert!(said.contains(&format!("feature level {NEW}")), "{said}");
    set_level(cluster.node_mut(1), NEW);
    cluster.start(1)?;
    cluster.ready(1).await
}

/// Asks one node for a hold, or its end, as an operator who saw the hold's revision.
async fn set(cluster: &Cluster, target: Target, revision: u64) -> Result<u64, tonic::Status> {
    let mut client = ClusterServiceClient::new(cluster.caller(1).channel());
    let request = SetUpgradeHoldRequest {
        target: Some(target),
        if_revision: Some(revision),
    };
    Ok(client
        .set_upgrade_hold(request)
        .await?
        .into_inner()
        .revision)
}

#[tokio::test(flavor = "multi_thread")]
async fn late_duplicate_of_a_hold_does_not_revert_a_finish() -> Result<()> {
    let cluster = nodes(1).start().await?;
    grown_up(&cluster).await?;
    let (hold, release) = (Target::Hold(Unit {}), Target::Release(Unit {}));
    assert_eq!(set(&cluster, hold, 0).await?, 1);
    assert_eq!(set(&cluster, hold, 0).await?, 1, "a repeat changes nothing");
    assert_eq!(set(&cluster, release, 1).await?, 2);
    let late = set(&cluster, hold, 0).await.unwrap_err();
    assert_eq!(late.code(), tonic::Code::FailedPrecondition, "{late}");
    let said = upgrade(&cluster, "status")?;
    assert_eq!(said["held"], false, "{said}");
    assert_eq!(said["nodes"][0]["hold_revision"], 2, "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_without_one_member_says_which_one_lacks_it() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    grown_up(&cluster).await?;
    let away = cluster.others(cluster.leader().await?.seat)[0];
    cluster.kill(away)?;
    let partial = helve(&cluster, &["upgrade", "hold", "--timeout", "10s"])?;
    let said = String::from_utf8_lossy(&partial.stderr);
    assert_eq!(partial.status.code(), Some(ABSENT), "{said}");
    assert!(said.contains("does not answer"), "{said}");
    let refused = helve(&cluster, &["upgrade", "finish", "--timeout", "10s"])?;
    assert_eq!(refused.status.code(), Some(NOT_NOW), "{refused:?}");
    cluster.start(away)?;
    cluster.ready(away).await?;
    let held = upgrade(&cluster, "hold")?;
    let nodes = held["nodes"].as_array().context("nodes")?;
    assert!(nodes.iter().all(|node| node["held_level"] == OLD), "{held}");
    let ended = upgrade(&cluster, "finish")?;
    assert_eq!(ended["held"], false, "{ended}");
    Ok(())
}

#[test]
fn documents_list_every_level_as_the_code_does() -> Result<()> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/versions.md");
    let page = std::fs::read_to_string(page)?;
    for known in LEVELS {
        let row = format!("| {} | {} |", known.level, known.brought);
        assert!(page.contains(&row), "no row `{row}` in docs/versions.md");
    }
    Ok(())
}
