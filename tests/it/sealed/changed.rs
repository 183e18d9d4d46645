//! A change of the data key that is sent again late.

use anyhow::{Context as _, Result};
use helve_proto::v1::{
    SetDataKeyReply, SetDataKeyRequest, Unit, cluster_service_client::ClusterServiceClient,
};
use helve_tests::{
    caller::{Caller, with_deadline},
    promise,
    wait::{Look, until},
};
use tonic::Status;

use super::{Keys, REFUSED, Target, all_under, key_status, rotate, set_key};
use crate::command_line::helve;

/// The feature level from which on keys that sealed before are noted.
const NOTED: u32 = 6;

async fn set_at(caller: &Caller, key_id: &str, index: u64) -> Result<SetDataKeyReply, Status> {
    let mut client = ClusterServiceClient::new(caller.channel());
    let request = SetDataKeyRequest {
        target: Some(Target::KeyId(key_id.to_owned())),
        if_index: Some(index),
    };
    let reply = client.set_data_key(with_deadline(request)).await?;
    Ok(reply.into_inner())
}

#[tokio::test]
async fn a_late_duplicate_of_a_key_change_does_not_revert_a_newer_one() -> Result<()> {
    let keys = Keys::new()?;
    let cluster = keys.setup().start().await?;
    let caller = cluster.caller(1);
    let second = rotate(&cluster, &keys, "2.key", 2).await?;
    all_under(&cluster, &second).await?;
    let decided_on = key_status(&caller).await?.index;
    let third = rotate(&cluster, &keys, "3.key", 3).await?;
    all_under(&cluster, &third).await?;
    // The operator had asked for the second key before the third came.
    for seat in cluster.seats() {
        let late = set_at(&cluster.caller(seat), &second, decided_on).await;
        let refused = late.as_ref().err().map(Status::message);
        promise!(
            refused.is_some_and(|why| why.contains("another change came in between")),
            "node {seat}: {late:?}"
        );
    }
    let now = key_status(&caller).await?;
    promise!(now.key_id == third && now.index > decided_on, "{now:?}");
    // What is decided on what is there is done.
    let back = set_at(&caller, &second, now.index).await?;
    promise!(back.key_id == second, "{back:?}");
    all_under(&cluster, &second).await
}

/// Each node refuses by itself, whatever its caller has looked at before.
#[tokio::test]
async fn newest_key_is_refused_where_the_order_of_files_differs() -> Result<()> {
    let (keys, turned) = (Keys::new()?, Keys::new()?);
    keys.add("2.key", 2)?;
    turned.add("0.key", 2)?;
    let mut cluster = keys.setup().prepare().await?;
    let directory = turned.0.path().display().to_string();
    cluster.node_mut(2).set("HELVE_DATA_KEYS", &directory);
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    let sealed = until("values to be sealed", async || {
        match key_status(&cluster.caller(1)).await {
            Ok(status) if !status.key_id.is_empty() && !status.under_way => {
                Look::Done(status.key_id)
            }
            status => Look::NotYet(format!("{status:?}")),
        }
    })
    .await?;
    all_under(&cluster, &sealed).await?;
    for seat in cluster.seats() {
        let caller = cluster.caller(seat);
        let newest = key_status(&caller).await?.held.pop();
        let set = set_key(&caller, Target::Newest(Unit {})).await;
        if newest.as_ref() == Some(&sealed) {
            promise!(set.is_ok_and(|set| set.key_id == sealed), "node {seat}");
            continue;
        }
        let refused = set.as_ref().err().map(Status::message);
        promise!(
            refused.is_some_and(|why| why.contains("the nodes' newest keys differ")),
            "node {seat}: {set:?}"
        );
    }
    all_under(&cluster, &sealed).await
}

/// No value is ever written, so that no count names the key that was retired.
#[tokio::test(flavor = "multi_thread")]
async fn rotation_to_a_key_that_sealed_before_is_refused() -> Result<()> {
    let keys = Keys::new()?;
    let cluster = keys.setup_of(1).start().await?;
    let caller = cluster.caller(1);
    until("the level that notes keys", async || {
        match cluster.status(1).await {
            Ok(status) if status.feature_level >= NOTED => Look::Done(()),
            Ok(status) => Look::NotYet(format!("{status:?}")),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await?;
    let retired = key_status(&caller).await?.key_id;
    all_under(&cluster, &retired).await?;
    // By name it is older than the key that is retired for it.
    keys.add("0.key", 2)?;
    let second = until("the node to hold the new key", async || {
        match key_status(&caller).await {
            Ok(status) if status.held.len() == 2 => Look::Done(status.held),
            Ok(status) => Look::NotYet(format!("{status:?}")),
            Err(status) => Look::NotYet(status.to_string()),
        }
    })
    .await?;
    let second = second.first().context("no key is held")?;
    set_key(&caller, Target::KeyId(second.clone())).await?;
    all_under(&cluster, second).await?;
    let now = key_status(&caller).await?;
    promise!(now.former == [retired.clone()], "{now:?}");
    promise!(now.counts.is_empty(), "{now:?}");
    let directly = set_key(&caller, Target::Newest(Unit {})).await;
    let refused = directly.as_ref().err().map(Status::message);
    promise!(
        refused.is_some_and(|why| why.contains("has sealed values before")),
        "{directly:?}"
    );
    let refused = helve(&cluster, &["data-key", "rotate"])?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    promise!(refused.status.code() == Some(REFUSED), "{said}");
    promise!(said.contains("has sealed values before"), "{said}");
    promise!(said.contains(&format!("--to {retired}")), "{said}");
    promise!(
        key_status(&caller).await?.key_id == *second,
        "it was rotated"
    );
    Ok(())
}
