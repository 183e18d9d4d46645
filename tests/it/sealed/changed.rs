//! A change of the data key that is sent again late.

use anyhow::Result;
use helve_proto::v1::{
    SetDataKeyReply, SetDataKeyRequest, cluster_service_client::ClusterServiceClient,
};
use helve_tests::{
    caller::{Caller, with_deadline},
    promise,
};
use tonic::Status;

use super::{Keys, Target, all_under, key_status, rotate};

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
