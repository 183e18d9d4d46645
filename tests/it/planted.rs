//! Each planted bug is found by the check that is there for it: a check that cannot fail shows nothing.

use anyhow::Result;
use helve_tests::{cluster::Cluster, promise::is_broken};

use super::{
    durable::check_syncs, lifetimes::check_expiry, nodes, reads::check_a_minority_is_silent,
    replay::check_retries, revisions::check_updates,
};

async fn with_bug(bug: &str) -> Result<Cluster> {
    nodes(3).with("HELVE_PLANTED", bug).start().await
}

/// The check must find a broken promise. Any other error would show only that the test is broken.
fn assert_found(bug: &str, checked: Result<()>) {
    match checked {
        Ok(()) => panic!(
            "nobody noticed {bug}; were the tests built with `--features helve-tests/planted`?"
        ),
        Err(error) => assert!(is_broken(&error), "{bug}: {error:?}"),
    }
}

#[tokio::test]
async fn a_cluster_without_replay_is_found() -> Result<()> {
    let cluster = with_bug("replay-off").await?;
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
    let cluster = with_bug("serve-expired").await?;
    assert_found("serve-expired", check_expiry(&cluster).await);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_does_not_sync_is_found() -> Result<()> {
    let cluster = with_bug("skip-fsync").await?;
    assert_found("skip-fsync", check_syncs(&cluster).await);
    Ok(())
}
