//! Whether replicas hold the same rows, as operators ask.

use anyhow::Result;
use helve_tests::{digest::agree, ledger::Ledger};
use serde_json::Value;

use super::{
    command_line::{UNAVAILABLE, helve, printed},
    nodes,
};

fn report(output: &std::process::Output) -> Result<Value> {
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_hold_the_same_rows_are_said_to_do_so() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    for seat in cluster.seats() {
        ledger.mint(&[cluster.caller(seat)]).await?;
    }
    agree(&cluster).await?;
    let asked = helve(&cluster, &["digest", "--output", "json"])?;
    printed(&asked);
    let found = report(&asked)?;
    assert_eq!(found["equal"], true, "{found}");
    assert_eq!(found["nodes"].as_array().map(Vec::len), Some(3), "{found}");
    let rows = &found["nodes"][0]["rows"];
    assert!(rows.as_u64() > Some(3), "{found}");

    // The node that was away, and came back, holds them too.
    let away = cluster.others(cluster.leader().await?.seat)[0];
    let id = cluster.status(away).await?.node.unwrap_or_default().id;
    cluster.kill(away)?;
    let asked = helve(&cluster, &["digest", "--timeout", "5s", "--output", "json"])?;
    assert_eq!(asked.status.code(), Some(UNAVAILABLE));
    let found = report(&asked)?;
    let advice = format!("node {id} gave no digest: start it");
    // On a busy machine another node may be silent, too.
    let next = found["next"].as_array().into_iter().flatten();
    let mut next = next.filter_map(Value::as_str);
    assert!(next.any(|next| next.starts_with(&advice)), "{found}");
    ledger
        .mint(&[cluster.caller(cluster.leader().await?.seat)])
        .await?;
    cluster.start(away)?;
    cluster.ready(away).await?;
    agree(&cluster).await
}

#[cfg(feature = "planted")]
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_has_gone_wrong_is_named_with_what_to_do() -> Result<()> {
    let mut cluster = nodes(3).prepare().await?;
    let wrong = 2;
    cluster.node_mut(wrong).set("HELVE_PLANTED", "usage-off");
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    Ledger::new("carts").mint(&[cluster.caller(1)]).await?;
    let broken = agree(&cluster).await;
    assert!(
        broken.as_ref().is_err_and(helve_tests::promise::is_broken),
        "{broken:?}"
    );
    let asked = helve(&cluster, &["digest", "--output", "json"])?;
    assert_eq!(asked.status.code(), Some(super::command_line::ABSENT));
    let found = report(&asked)?;
    assert_eq!(found["equal"], false, "{found}");
    let next = found["next"][0].as_str().unwrap_or_default();
    assert!(
        next.starts_with(&format!("node {wrong} holds other rows")),
        "{found}"
    );
    Ok(())
}
