//! Values sealed at rest: what the disks hold, what a node without its key does, and rotation while callers go on.

mod changed;
mod claimed;
mod counted;
#[cfg(feature = "planted")]
pub(super) mod cut_short;
mod disk_key;
mod edited;
mod forged;
mod keys;
mod unsealed;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::future::try_join;
use helve_proto::{
    Reason,
    v1::{
        BatchRetrieveRequest, BatchStoreRequest, DataKeyStatusReply, DataKeyStatusRequest,
        GetRequest, HandleStatus, ListRequest, MintOperation, MintRequest, Operation, PutRequest,
        SetDataKeyReply, SetDataKeyRequest, StoreItem, StoreRequest, TakeRequest,
        TakeSnapshotRequest, TransactRequest, Unit, cluster_service_client::ClusterServiceClient,
        operation::Operation as Part, set_data_key_request::Target,
    },
};
use helve_tests::{
    caller::{Caller, new_identity, reason, with_deadline},
    cluster::Cluster,
    on_disk::files_with,
    wait::{Look, until},
};
use tonic::Status;

pub(crate) use self::keys::Keys;
use super::{nodes, replay, revisions};

/// What no disk may hold.
pub(crate) const MARK: &[u8] = b"the-plaintext-that-may-be-found-on-no-disk";
const REFUSED: i32 = 2;

async fn key_status(caller: &Caller) -> Result<DataKeyStatusReply, Status> {
    let mut client = ClusterServiceClient::new(caller.line());
    let reply = client
        .data_key_status(with_deadline(DataKeyStatusRequest {}))
        .await;
    Ok(reply?.into_inner())
}

async fn set_key(caller: &Caller, target: Target) -> Result<SetDataKeyReply, Status> {
    let mut client = ClusterServiceClient::new(caller.line());
    let request = SetDataKeyRequest {
        target: Some(target),
        if_index: None,
    };
    Ok(client
        .set_data_key(with_deadline(request))
        .await?
        .into_inner())
}

/// Waits until every node says that all values are sealed under this key, and that it finds no other among its records.
async fn all_under(cluster: &Cluster, key_id: &str) -> Result<()> {
    until("every value to be under one key", async || {
        for seat in cluster.running() {
            match key_status(&cluster.caller(seat)).await {
                Ok(status) if status.key_id == key_id && !status.under_way => {
                    let other = |count: &&helve_proto::v1::DataKeyCount| {
                        count.key_id != key_id && count.records > 0
                    };
                    if let Some(count) = status.counts.iter().find(other) {
                        return Look::NotYet(format!("node {seat}: {count:?}"));
                    }
                }
                Ok(status) => return Look::NotYet(format!("node {seat}: {status:?}")),
                Err(error) => return Look::NotYet(error.to_string()),
            }
        }
        Look::Done(())
    })
    .await
}

/// Gives all nodes a newer key, and has them seal under it.
async fn rotate(cluster: &Cluster, keys: &Keys, name: &str, byte: u8) -> Result<String> {
    keys.add(name, byte)?;
    let caller = cluster.caller(2);
    let before = key_status(&caller).await?.key_id;
    until("every node to hold the new key", async || {
        match set_key(&caller, Target::Newest(Unit {})).await {
            Ok(reply) if reply.key_id != before => Look::Done(reply.key_id),
            Ok(_) => Look::NotYet("the node has not read the file".to_owned()),
            Err(status) => Look::NotYet(status.to_string()),
        }
    })
    .await
}

fn minted_part(value: &'static [u8]) -> Operation {
    Operation {
        operation: Some(Part::Mint(MintOperation {
            store: "carts".into(),
            value: value.into(),
            ..MintOperation::default()
        })),
    }
}

/// Callers of all nodes that run.
fn callers(cluster: &Cluster) -> Vec<Caller> {
    let seats = cluster.running().into_iter();
    seats.map(|seat| cluster.caller(seat)).collect()
}

/// Writes the mark in every way, and takes one of what was written. Answers the id of a handle that holds it.
pub(crate) async fn write_everywhere(callers: &[Caller]) -> Result<String> {
    let [caller, .., last] = callers else {
        bail!("a cluster has more nodes");
    };
    let mint = MintRequest {
        store: "carts".into(),
        value: MARK.into(),
        ..MintRequest::default()
    };
    let id = caller.mint(mint.clone()).await?.info.context("an info")?;
    ensure!(
        id.value_bytes == MARK.len() as u64 && id.sealed_under.is_empty(),
        "{id:?}"
    );
    let taken = last.mint(mint).await?.info.context("an info")?;
    let take = TakeRequest {
        identity: Some(new_identity()),
        store: "carts".into(),
        id: taken.name,
        ..TakeRequest::default()
    };
    for caller in callers {
        let taken = caller.take(take.clone()).await?;
        ensure!(
            taken.status() == HandleStatus::Live && taken.value == MARK,
            "{taken:?}"
        );
    }
    let put = PutRequest {
        store: "carts".into(),
        id: "put".into(),
        value: MARK.into(),
        ..PutRequest::default()
    };
    last.put(put).await?;
    let store = StoreRequest {
        key: "store".into(),
        value: MARK.into(),
        ..StoreRequest::default()
    };
    caller.store(store).await?;
    let item = |key: &str| StoreItem {
        key: key.into(),
        value: MARK.into(),
        ..StoreItem::default()
    };
    let batch = BatchStoreRequest {
        items: vec![item("a"), item("b")],
        ..BatchStoreRequest::default()
    };
    caller.batch_store(batch).await?;
    let transact = TransactRequest {
        operations: vec![minted_part(MARK), minted_part(MARK)],
        ..TransactRequest::default()
    };
    caller.transact(transact).await?;
    Ok(id.name)
}

/// Reads the mark back in every way, on every node.
pub(crate) async fn read_everywhere(callers: &[Caller], id: &str) -> Result<()> {
    for (at, caller) in callers.iter().enumerate() {
        let get = GetRequest {
            store: "carts".into(),
            id: id.into(),
            ..GetRequest::default()
        };
        ensure!(caller.get(get).await?.value == MARK, "caller {at}: a get");
        let list = ListRequest {
            store: "carts".into(),
            with_values: true,
            ..ListRequest::default()
        };
        let parts = caller.list(list).await?;
        let mut listed = parts.iter().flat_map(|part| &part.handles);
        ensure!(
            listed.all(|handle| handle.value == MARK),
            "caller {at}: a list"
        );
        let keys = ["a", "store", "b"].map(String::from).to_vec();
        let batch = BatchRetrieveRequest {
            keys,
            ..BatchRetrieveRequest::default()
        };
        let found = caller.batch_retrieve(batch).await?.keys;
        let holds = |key: &helve_proto::v1::RetrievedKey| {
            key.record.as_ref().is_some_and(|r| r.value == MARK)
        };
        ensure!(
            found.len() == 3 && found.iter().all(holds),
            "caller {at}: {found:?}"
        );
    }
    Ok(())
}

/// Takes a snapshot on every node, stops all, and looks through everything that they wrote.
async fn on_disk(cluster: &mut Cluster) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for seat in cluster.seats() {
        cluster
            .caller(seat)
            .take_snapshot(TakeSnapshotRequest {})
            .await?;
    }
    for seat in cluster.seats() {
        cluster.node(seat).terminate()?;
        cluster.node_mut(seat).stopped().await?;
        found.extend(files_with(&cluster.data_directory(seat), MARK)?);
    }
    Ok(found)
}

#[tokio::test]
async fn no_file_of_a_sealed_cluster_holds_a_value_and_files_of_a_plain_one_do() -> Result<()> {
    let keys = Keys::new()?;
    let mut sealed = keys.setup().start().await?;
    let id = write_everywhere(&callers(&sealed)).await?;
    read_everywhere(&callers(&sealed), &id).await?;
    let found = on_disk(&mut sealed).await?;
    ensure!(found.is_empty(), "{found:?}");
    drop(sealed);
    let mut plain = nodes(3).start().await?;
    let id = write_everywhere(&callers(&plain)).await?;
    read_everywhere(&callers(&plain), &id).await?;
    ensure!(
        !on_disk(&mut plain).await?.is_empty(),
        "the search finds nothing anywhere"
    );
    Ok(())
}

#[tokio::test]
async fn a_rotation_under_load_loses_no_update_and_a_retry_after_it_is_the_same_call() -> Result<()>
{
    let keys = Keys::new()?;
    let cluster = keys.setup().start().await?;
    let id = write_everywhere(&callers(&cluster)).await?;
    let mint = replay::mint_of("retried");
    let first = cluster.caller(1).mint(mint.clone()).await?.info;
    let done = AtomicBool::new(false);
    let updates = async {
        while !done.load(Ordering::Relaxed) {
            revisions::check_updates(&cluster).await?;
        }
        anyhow::Ok(())
    };
    let rotation = async {
        for (name, byte) in [("2.key", 2), ("3.key", 3)] {
            let key_id = rotate(&cluster, &keys, name, byte).await?;
            all_under(&cluster, &key_id).await?;
        }
        done.store(true, Ordering::Relaxed);
        anyhow::Ok(())
    };
    try_join(updates, rotation).await?;
    read_everywhere(&callers(&cluster), &id).await?;
    for seat in cluster.seats() {
        let again = cluster.caller(seat).mint(mint.clone()).await?.info;
        ensure!(
            again == first,
            "node {seat} answered {again:?}, not {first:?}"
        );
    }
    let other = MintRequest {
        value: "another value".into(),
        ..mint
    };
    let refused = cluster
        .caller(3)
        .mint(other)
        .await
        .expect_err("another request");
    ensure!(
        reason(&refused) == Some(Reason::ReplayMismatch),
        "{refused}"
    );
    replay::check_retries(&cluster, "carts-of-retries").await
}

#[tokio::test]
async fn a_node_without_the_key_of_its_cluster_refuses_to_start_and_names_the_flag() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup().start().await?;
    write_everywhere(&callers(&cluster)).await?;
    let wrong = tempfile::tempdir()?;
    let path = wrong.path().join("wrong.key");
    fs::write(&path, [200; 32])?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    for wiped in [false, true] {
        cluster.kill(3)?;
        if wiped {
            // It learns only from its peers that they seal.
            cluster.wipe(3)?;
        }
        let node = cluster.node_mut(3);
        node.set("HELVE_DATA_KEYS", &wrong.path().display().to_string());
        cluster.start(3)?;
        let status = cluster.node_mut(3).stopped().await?;
        let said = cluster.node(3).log_tail();
        ensure!(status.code() == Some(REFUSED), "{status}: {said}");
        ensure!(
            said.contains("--data-key-file") && said.contains("are sealed"),
            "{said}"
        );
        // What it stored under the wrong key fits no other.
        if wiped {
            cluster.wipe(3)?;
        }
        let node = cluster.node_mut(3);
        node.set("HELVE_DATA_KEYS", &keys.0.path().display().to_string());
        cluster.start(3)?;
        cluster.ready(3).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_plain_cluster_is_sealed_node_by_node_and_unsealed_again_and_a_retry_stays_the_same_call()
-> Result<()> {
    let keys = Keys::new()?;
    let directory = keys.0.path().display().to_string();
    let mut cluster = nodes(3).start().await?;
    let id = write_everywhere(&callers(&cluster)).await?;
    let mint = replay::mint_of("retried");
    let first = cluster.caller(1).mint(mint.clone()).await?.info;
    cluster.kill(1)?;
    cluster.node_mut(1).set("HELVE_DATA_KEYS", &directory);
    cluster.start(1)?;
    let status = cluster.node_mut(1).stopped().await?;
    let said = cluster.node(1).log_tail();
    ensure!(
        status.code() == Some(REFUSED) && said.contains("--data-key-migrate"),
        "{said}"
    );
    for seat in cluster.seats() {
        if cluster.node(seat).pid().is_some() {
            cluster.kill(seat)?;
        }
        let node = cluster.node_mut(seat);
        node.set("HELVE_DATA_KEYS", &directory);
        node.set("HELVE_DATA_KEY_MIGRATE", "true");
        cluster.start(seat)?;
        cluster.ready(seat).await?;
        read_everywhere(&callers(&cluster), &id).await?;
    }
    let key_id = until("the leader to begin", async || {
        match key_status(&cluster.caller(2)).await {
            Ok(status) if !status.key_id.is_empty() => Look::Done(status.key_id),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    all_under(&cluster, &key_id).await?;
    read_everywhere(&callers(&cluster), &id).await?;
    for seat in cluster.seats() {
        let again = cluster.caller(seat).mint(mint.clone()).await?.info;
        ensure!(
            again == first,
            "node {seat} answered {again:?}, not {first:?}"
        );
    }
    set_key(&cluster.caller(3), Target::Plain(Unit {})).await?;
    all_under(&cluster, "").await?;
    read_everywhere(&callers(&cluster), &id).await
}
