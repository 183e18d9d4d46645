//! Guards: locks that expire.

use std::time::Duration;

use helve_client::{Error, ErrorKind, KeyOptions, StateTool};

use crate::setup::{HOUR, PATIENCE, SHORT, Setup, together, wait_until};

const KEY: &str = "guard";

pub(super) async fn one_of_sixteen_holds_the_guard_and_the_next_has_a_higher_fence(
    setup: Setup,
) -> Result<(), Error> {
    let callers = (0..16).map(|node| {
        let guards = setup.client(node).guards(&setup.name);
        async move { guards.try_acquire(KEY, HOUR).await }
    });
    let mut held: Vec<_> = together(callers).await?.into_iter().flatten().collect();
    assert_eq!(held.len(), 1);
    let first = held.remove(0);
    let fence = first.fence();
    assert!(first.release().await?);

    let guards = setup.client(1).guards(&setup.name);
    let next = guards.acquire(KEY, HOUR, PATIENCE).await?;
    assert!(next.fence() > fence);
    let foreign = setup.client(0).guards("somebody else");
    assert!(foreign.try_acquire(&setup.name, SHORT).await?.is_some());
    Ok(())
}

pub(super) async fn a_guard_that_is_not_released_lapses(setup: Setup) -> Result<(), Error> {
    let (dead, heir) = (setup.client(0), setup.client(1));
    let lost = dead
        .guards(&setup.name)
        .acquire(KEY, SHORT, PATIENCE)
        .await?;
    let heirs = heir.guards(&setup.name);
    let guard = heirs.acquire(KEY, HOUR, PATIENCE).await?;
    assert!(guard.fence() > lost.fence());
    assert!(
        !lost.release().await?,
        "it was lost, and the heir's is untouched"
    );
    assert!(heirs.try_acquire(KEY, HOUR).await?.is_none());
    let waited = heirs.acquire(KEY, HOUR, Duration::from_millis(1)).await;
    let kind = waited.err().map(|error| error.kind());
    assert!(matches!(kind, Some(ErrorKind::Conflict { .. })), "{kind:?}");
    Ok(())
}

pub(super) async fn a_dropped_guard_is_let_go(setup: Setup) -> Result<(), Error> {
    let client = setup.client(0);
    let keys = client.keys(KeyOptions::new(&setup.name));
    let guards = client.guards(&setup.name);
    let guard = guards.acquire(KEY, HOUR, PATIENCE).await?;
    assert!(keys.exists(guard.key()).await?);
    drop(guard);
    wait_until("the guard to be let go", async || {
        Ok(!keys.exists(KEY).await?)
    })
    .await
}
