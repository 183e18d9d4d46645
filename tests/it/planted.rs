//! Each planted bug is found by the check that is there for it: a check that cannot fail shows nothing.

#[cfg(feature = "planted")]
mod disk;

use std::{env, process::Command};

use anyhow::Result;
#[cfg(feature = "planted")]
use helve_machine::planted::Plant;
use helve_proto::v1::{GetRequest, HandleStatus, MintRequest};
use helve_tests::{
    caller::new_identity,
    cluster::{Cluster, Equipment},
    digest::agree,
    ledger::Ledger,
    promise,
    promise::is_broken,
};

use super::{
    durable::check_syncs,
    lifetimes::check_expiry,
    nodes,
    reads::{
        check_a_leader_alone_is_silent, check_a_minority_is_silent,
        check_late_answers_prove_nothing,
    },
    replay::check_retries,
    revisions::check_updates,
};

/// A deposed leader that hears of the other one before it hears all late answers is harmless, whatever it takes them for: about two of
/// three are.
const LATE_ANSWERS_MAX: usize = 40;

/// What the compiler says of the planted bugs, with or without the assertions that a release does without.
fn compiled(debug_assertions: &str) -> Result<String> {
    let directory = tempfile::tempdir()?;
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../node/machine/src/planted.rs"
    );
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        .args(["--edition", "2024", "--crate-type", "lib"])
        .args(["--emit", "metadata", "--cfg", "feature=\"planted\""])
        .args(["-C", debug_assertions, "--out-dir"])
        .arg(directory.path())
        .arg(source)
        .output()?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_release_refuses_to_compile_planted_bugs_in() -> Result<()> {
    let refusal = "it must not stand in a release build";
    let (release, test) = (
        compiled("debug-assertions=off")?,
        compiled("debug-assertions=on")?,
    );
    assert!(release.contains(refusal), "{release}");
    assert!(!test.contains(refusal), "{test}");
    Ok(())
}

async fn with_bug(bug: &str) -> Result<Cluster> {
    nodes(3).with("HELVE_PLANTED", bug).start().await
}

/// One node, for a bug of the state machine, which is the same on each.
async fn one_with_bug(bug: &str) -> Result<Cluster> {
    nodes(1).with("HELVE_PLANTED", bug).start().await
}

/// The check must find a broken promise. Any other error would show only that the test is broken.
fn assert_found(bug: &str, checked: Result<()>) {
    match checked {
        Ok(()) => panic!(
            "no test noticed {bug}; were the tests built with `--features helve-tests/planted`?"
        ),
        Err(error) => assert!(is_broken(&error), "{bug}: {error:?}"),
    }
}

/// A check that passes in spite of a bug says nothing if the bug's line was never executed.
#[cfg(feature = "planted")]
async fn assert_was_executed(cluster: &Cluster, seat: u64, plant: Plant) -> Result<()> {
    let page = super::probes::get(cluster.listeners(seat).http, "/metrics").await?;
    let series = format!(
        r#"helve_planted_executions_total{{plant="{}"}} "#,
        plant.as_str()
    );
    let counted = page.1.lines().any(|line| line.starts_with(&series));
    assert!(counted, "node {seat} has not executed it: {}", page.1);
    Ok(())
}

/// A handle answers to its owner, and to no other.
async fn check_owners(cluster: &Cluster) -> Result<()> {
    let caller = cluster.caller(1);
    let of_ann = MintRequest {
        identity: Some(new_identity()),
        store: "carts".to_owned(),
        owner: "ann".to_owned(),
        ..MintRequest::default()
    };
    let minted = caller.mint(of_ann).await?.info.unwrap_or_default();
    for (owner, status) in [("ann", HandleStatus::Live), ("bob", HandleStatus::Unknown)] {
        let request = GetRequest {
            store: "carts".to_owned(),
            owner: owner.to_owned(),
            id: minted.name.clone(),
        };
        let reply = caller.get(request).await?;
        promise!(
            reply.status() == status,
            "{owner} hears {reply:?} of ann's handle"
        );
    }
    Ok(())
}

#[tokio::test]
async fn owners_are_kept_apart() -> Result<()> {
    check_owners(&nodes(1).start().await?).await
}

#[tokio::test]
async fn a_cluster_that_leaves_the_owner_out_of_the_key_is_found() -> Result<()> {
    let cluster = one_with_bug("owner-not-in-key").await?;
    assert_found("owner-not-in-key", check_owners(&cluster).await);
    Ok(())
}

#[tokio::test]
async fn a_leader_that_asks_no_quorum_before_a_read_is_found() -> Result<()> {
    let cluster = with_bug("read-without-quorum").await?;
    assert_found(
        "read-without-quorum",
        check_a_leader_alone_is_silent(&cluster).await,
    );
    Ok(())
}

#[tokio::test]
async fn a_leader_that_takes_an_answer_for_more_than_it_answers_is_found() -> Result<()> {
    let setup = nodes(3).with("HELVE_PLANTED", "answer-ahead");
    let mut cluster = setup.on(Equipment::Network).start().await?;
    assert_found(
        "answer-ahead",
        check_late_answers_prove_nothing(&mut cluster, LATE_ANSWERS_MAX).await,
    );
    Ok(())
}

#[tokio::test]
async fn replicas_that_date_commands_by_their_own_clocks_are_found() -> Result<()> {
    let cluster = with_bug("local-clock").await?;
    let ledger = Ledger::new("carts");
    // Once they may all have read the same millisecond, but not a hundred times.
    for seat in [1, 2, 3].repeat(33) {
        ledger.mint(&[cluster.caller(seat)]).await?;
    }
    assert_found("local-clock", agree(&cluster).await);
    Ok(())
}

#[tokio::test]
async fn a_cluster_without_replay_is_found() -> Result<()> {
    let cluster = one_with_bug("replay-off").await?;
    assert_found("replay-off", check_retries(&cluster, "carts").await);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_reads_without_a_read_index_is_found() -> Result<()> {
    let cluster = with_bug("read-without-read-index").await?;
    assert_found(
        "read-without-read-index",
        check_a_minority_is_silent(&cluster).await,
    );
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_ignores_revisions_is_found() -> Result<()> {
    let cluster = with_bug("ignore-revision").await?;
    assert_found("ignore-revision", check_updates(&cluster).await);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_serves_expired_handles_is_found() -> Result<()> {
    let cluster = one_with_bug("serve-expired").await?;
    assert_found("serve-expired", check_expiry(&cluster).await);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_does_not_sync_is_found() -> Result<()> {
    let cluster = with_bug("skip-fsync").await?;
    assert_found("skip-fsync", check_syncs(&cluster).await);
    Ok(())
}
