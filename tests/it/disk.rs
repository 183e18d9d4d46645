//! A disk that fills up: what frees space still works, everything else is refused and nothing is lost; and the log stays short.

use anyhow::{Context as _, Result};
use helve_proto::v1::{DeleteRequest, GetRequest, HandleStatus, TakeRequest};
use helve_tests::{
    promise,
    wait::{Look, until},
};
use tonic_types::StatusExt;

use super::{nodes, replay::mint_of};

/// No disk has so much.
const NEVER: &str = "900000GiB";

#[tokio::test]
async fn below_the_disk_reserve_reads_and_what_frees_space_still_work() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let minted = cluster.caller(1).mint(mint_of("carts")).await?;
        ids.push(minted.info.context("a mint names its handle")?.name);
    }
    cluster.kill(1)?;
    cluster.node_mut(1).set("HELVE_DISK_RESERVE", NEVER);
    cluster.start(1)?;
    cluster.ready(1).await?;

    let caller = cluster.caller(1);
    let refused = caller
        .mint(mint_of("carts"))
        .await
        .err()
        .context("a mint was admitted")?;
    let details = refused.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone());
    promise!(
        reason.as_deref() == Some("DISK_FULL"),
        "a mint was refused with {refused:?}"
    );
    let (store, owner) = ("carts".to_owned(), String::new());
    let get = GetRequest {
        store: store.clone(),
        owner: owner.clone(),
        id: ids[0].clone(),
    };
    promise!(
        caller.get(get).await?.status() == HandleStatus::Live,
        "a get fails"
    );
    let (id, identity, if_revision) = (ids[0].clone(), None, None);
    let take = TakeRequest {
        identity,
        store: store.clone(),
        owner: owner.clone(),
        id,
        if_revision,
    };
    promise!(
        caller.take(take).await?.status() == HandleStatus::Live,
        "a take fails"
    );
    let (id, identity) = (ids[1].clone(), None);
    let delete = DeleteRequest {
        identity,
        store,
        owner,
        id,
        if_revision,
    };
    promise!(
        caller.delete(delete).await?.status() == HandleStatus::Live,
        "a delete fails"
    );
    Ok(())
}

#[tokio::test]
async fn a_log_of_many_bytes_is_covered_by_a_snapshot_however_few_its_entries() -> Result<()> {
    let cluster = nodes(1)
        .with("HELVE_SNAPSHOT_BYTES", "1MiB")
        .start()
        .await?;
    let caller = cluster.caller(1);
    for _ in 0..40 {
        let value = vec![7; 64 << 10].into();
        let request = helve_proto::v1::MintRequest {
            value,
            ..mint_of("carts")
        };
        caller.mint(request).await?;
    }
    until("a snapshot", async || match cluster.status(1).await {
        Ok(status) if status.node.as_ref().is_some_and(|n| n.snapshot_index > 0) => Look::Done(()),
        other => Look::NotYet(format!("{other:?}")),
    })
    .await
}
