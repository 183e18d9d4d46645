//! Writes that say which revision they replace.

use anyhow::Result;
use futures::future::try_join_all;
use helve_proto::{
    Reason,
    v1::{GetRequest, MintRequest, PutRequest},
};
use helve_tests::{
    caller::{Caller, reason},
    cluster::Cluster,
    promise,
};

use super::nodes;

const STORE: &str = "counters";
const WRITERS: usize = 16;
/// How often each writer adds one.
const ROUNDS: u64 = 5;

/// Many callers add to one counter, through all nodes, each on the revision that it read.
pub(crate) async fn check_updates(cluster: &Cluster) -> Result<()> {
    let request = MintRequest {
        store: STORE.to_owned(),
        value: "0".into(),
        ..MintRequest::default()
    };
    let minted = cluster.caller(1).mint(request).await?;
    let id = minted.info.unwrap_or_default().name;
    let seats = cluster.seats();
    let writers = (0..WRITERS).map(|writer| add(cluster.caller(seats[writer % seats.len()]), &id));
    try_join_all(writers).await?;
    let (sum, _) = read(&cluster.caller(1), &id).await?;
    let expected = WRITERS as u64 * ROUNDS;
    promise!(sum == expected, "{expected} was added, {sum} is there");
    Ok(())
}

async fn add(caller: Caller, id: &str) -> Result<()> {
    let mut left = ROUNDS;
    while left > 0 {
        let (sum, revision) = read(&caller, id).await?;
        let request = PutRequest {
            store: STORE.to_owned(),
            id: id.to_owned(),
            value: (sum + 1).to_string().into(),
            if_revision: Some(revision),
            ..PutRequest::default()
        };
        match caller.put(request).await {
            Ok(_) => left -= 1,
            // Somebody was quicker: read again. At least one caller gets on in each round, so this ends.
            Err(status) if reason(&status) == Some(Reason::Conflict) => {}
            Err(status) => return Err(status.into()),
        }
    }
    Ok(())
}

async fn read(caller: &Caller, id: &str) -> Result<(u64, u64)> {
    let request = GetRequest {
        store: STORE.to_owned(),
        id: id.to_owned(),
        ..GetRequest::default()
    };
    let reply = caller.get(request).await?;
    let sum = String::from_utf8(reply.value.to_vec())?.parse()?;
    Ok((sum, reply.info.unwrap_or_default().revision))
}

#[tokio::test]
async fn updates_through_all_nodes_at_once_lose_nothing() -> Result<()> {
    let cluster = nodes(3).start().await?;
    check_updates(&cluster).await
}
