//! Sealed rows that somebody changes on a stopped node's disk, through the engine, so that no checksum of a file shows it.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use helve_node::storage::{options::StateOptions, state_db::StateDb};
use helve_proto::{
    Reason,
    command::v1::RecordRow,
    v1::{
        GetRequest, ListRequest, Operation, RetrieveRequest, StoreRequest, TakeOperation,
        TakeRequest, TransactRequest, Unit, operation::Operation as Part,
        set_data_key_request::Target,
    },
};
use helve_tests::{
    caller::{Caller, reason},
    wait::{Look, until},
};
use prost::Message as _;
use tonic::Status;

use super::{key_status, keys::Keys, set_key};
use crate::replay::mint_of;

/// As long as each other, so that a swap changes no length.
const VALUES: [&str; 5] = [
    "value of A",
    "value of B",
    "value of C",
    "value of D",
    "value of E",
];

/// Changes the rows of these records, which are known by the names in their keys.
fn edit(directory: &Path, names: &[String], change: impl FnOnce(&mut [RecordRow])) -> Result<()> {
    let state = StateDb::open(directory, StateOptions::default())?;
    let mut rows = BTreeMap::new();
    state.read(|view| {
        view.each_row(|key, row| {
            let is_in = |name: &String| key.windows(name.len()).any(|part| part == name.as_bytes());
            let named = names.iter().position(is_in);
            let row = row.get(1..).and_then(|row| RecordRow::decode(row).ok());
            if let (Some(at), Some(row)) = (named, row.filter(|row| !row.sealed_under.is_empty())) {
                rows.insert(at, (Bytes::copy_from_slice(key), row));
            }
            true
        })
    })?;
    ensure!(rows.len() == names.len(), "{} of {names:?}", rows.len());
    let (keys, mut rows): (Vec<_>, Vec<_>) = rows.into_values().unzip();
    change(&mut rows);
    let encoded = rows.iter().map(|row| {
        let row = [&[1], row.encode_to_vec().as_slice()].concat();
        Some(Bytes::from(row))
    });
    let applied = state.applied()?.context("nothing was applied")?;
    state.write(keys.into_iter().zip(encoded), &applied, None)?;
    Ok(state.sync()?)
}

/// The values of the first two are swapped, one bit of the third's is flipped, the fourth's is gone, and the fifth is left alone.
fn spoil(rows: &mut [RecordRow]) {
    let [a, b, c, d, _] = rows else {
        panic!("not five rows");
    };
    std::mem::swap(&mut a.value, &mut b.value);
    let mut flipped = c.value.to_vec();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    c.value = flipped.into();
    d.value = Bytes::new();
}

async fn get(caller: &Caller, id: &str) -> Result<Bytes, Status> {
    let get = GetRequest {
        store: "carts".to_owned(),
        id: id.to_owned(),
        ..GetRequest::default()
    };
    Ok(caller.get(get).await?.value)
}

async fn retrieve(caller: &Caller, key: &str) -> Result<Bytes, Status> {
    let retrieve = RetrieveRequest {
        key: key.to_owned(),
        ..RetrieveRequest::default()
    };
    let record = caller.retrieve(retrieve).await?.record;
    Ok(record.map(|record| record.value).unwrap_or_default())
}

async fn take(caller: &Caller, id: &str) -> Result<(), Status> {
    let take = TakeRequest {
        store: "carts".to_owned(),
        id: id.to_owned(),
        ..TakeRequest::default()
    };
    caller.take(take).await.map(drop)
}

async fn take_together(caller: &Caller, id: &str) -> Result<(), Status> {
    let take = TakeOperation {
        store: "carts".to_owned(),
        id: id.to_owned(),
        ..TakeOperation::default()
    };
    let operation = Operation {
        operation: Some(Part::Take(take)),
    };
    let transact = TransactRequest {
        operations: vec![operation],
        ..TransactRequest::default()
    };
    caller.transact(transact).await.map(drop)
}

fn assert_damaged<T: std::fmt::Debug>(answer: Result<T, Status>, what: &str) {
    let refused = answer.expect_err(what);
    assert_eq!(reason(&refused), Some(Reason::Damaged), "{what}: {refused}");
}

#[tokio::test]
async fn a_sealed_value_that_was_moved_or_changed_on_disk_is_damaged_and_never_anothers()
-> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(1).start().await?;
    let caller = cluster.caller(1);
    let (mut ids, mut names) = (Vec::new(), Vec::new());
    for value in VALUES {
        let mut mint = mint_of("carts");
        mint.value = value.into();
        ids.push(caller.mint(mint).await?.info.context("an info")?.name);
        let key = format!("key of {value}");
        let store = StoreRequest {
            key: key.clone(),
            value: value.into(),
            ..StoreRequest::default()
        };
        caller.store(store).await?;
        names.push(key);
    }
    cluster.node(1).terminate()?;
    cluster.node_mut(1).stopped().await?;
    for records in [&ids, &names] {
        edit(&cluster.data_directory(1), records, spoil)?;
    }
    cluster.start(1)?;
    cluster.ready(1).await?;

    let caller = cluster.caller(1);
    for at in 0..4 {
        assert_damaged(get(&caller, &ids[at]).await, VALUES[at]);
        assert_damaged(retrieve(&caller, &names[at]).await, VALUES[at]);
    }
    ensure!(
        get(&caller, &ids[4]).await? == VALUES[4],
        "what was left alone"
    );
    ensure!(
        retrieve(&caller, &names[4]).await? == VALUES[4],
        "what was left alone"
    );
    let list = ListRequest {
        store: "carts".to_owned(),
        with_values: true,
        ..ListRequest::default()
    };
    assert_damaged(caller.list(list.clone()).await, "a list with values");
    let names_only = ListRequest {
        with_values: false,
        ..list
    };
    caller.list(names_only).await?;
    for (at, id) in ids[..4].iter().enumerate() {
        let taken = match at % 2 {
            0 => take(&caller, id).await,
            _ => take_together(&caller, id).await,
        };
        assert_damaged(taken, VALUES[at]);
    }
    Ok(())
}

/// The key that the cluster seals under, once every value is sealed under it.
pub(super) async fn sealed_under(caller: &Caller) -> Result<String> {
    until("every value to be sealed", async || {
        match key_status(caller).await {
            Ok(status) if !status.key_id.is_empty() && !status.under_way => {
                Look::Done(status.key_id)
            }
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_plain_value_put_on_a_sealed_disk_is_damaged_and_never_sealed() -> Result<()> {
    const FORGED: &[u8] = b"a value of somebody who writes the disk";
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(1).start().await?;
    let caller = cluster.caller(1);
    let mut ids = Vec::new();
    for value in &VALUES[..2] {
        let mut mint = mint_of("carts");
        mint.value = (*value).into();
        ids.push(caller.mint(mint).await?.info.context("an info")?.name);
    }
    let first_key = sealed_under(&caller).await?;
    cluster.node(1).terminate()?;
    cluster.node_mut(1).stopped().await?;
    edit(&cluster.data_directory(1), &ids[..1], |rows| {
        rows[0].value = FORGED.into();
        rows[0].sealed_under.clear();
    })?;
    cluster.start(1)?;
    cluster.ready(1).await?;

    let caller = cluster.caller(1);
    let damaged = async || -> Result<()> {
        assert_damaged(get(&caller, &ids[0]).await, "a plain value");
        let list = ListRequest {
            store: "carts".to_owned(),
            with_values: true,
            ..ListRequest::default()
        };
        assert_damaged(caller.list(list).await, "a list with a plain value");
        ensure!(get(&caller, &ids[1]).await? == VALUES[1], "left alone");
        Ok(())
    };
    damaged().await?;
    // A rotation seals what is there under another key: not this one.
    keys.add("2.key", 2)?;
    until("the new key", async || {
        match set_key(&caller, Target::Newest(Unit {})).await {
            Ok(reply) if reply.key_id != first_key => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    until(
        "the other value to be sealed under the new key",
        async || match key_status(&caller).await {
            Ok(status) if status.resealed > 0 => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        },
    )
    .await?;
    damaged().await?;
    assert_damaged(take(&caller, &ids[0]).await, "a plain value that is taken");
    Ok(())
}
