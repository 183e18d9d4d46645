//! A list is one view, however long it takes and whatever is written meanwhile.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use data_encoding::BASE64;
use helve_proto::{
    Reason,
    v1::{
        BatchStoreRequest, ListKeysReply, ListKeysRequest, ReplyHeader, StoreItem,
        state_service_client::StateServiceClient,
    },
};
use helve_tests::{
    caller::{Caller, reason, with_deadline},
    cluster::Cluster,
    promise,
    wait::{Look, until},
};
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use super::{nodes, probes};

/// The first and the last key, always written together.
const FIRST: &str = "list/0";
const LAST: &str = "list/z";

/// Keys between them, and how large each is: some parts of a list.
const BATCHES: usize = 6;
const BATCH_KEYS: usize = 64;
const VALUE_BYTES: usize = 16 * 1024;

fn item(key: String, value: Bytes) -> StoreItem {
    StoreItem {
        key,
        value,
        ..StoreItem::default()
    }
}

async fn store(caller: &Caller, items: Vec<StoreItem>) -> Result<()> {
    let request = BatchStoreRequest {
        items,
        ..BatchStoreRequest::default()
    };
    caller.batch_store(request).await?;
    Ok(())
}

async fn store_the_ends(caller: &Caller, round: u64) -> Result<()> {
    let ends = [FIRST, LAST].map(|key| item(key.to_owned(), round.to_string().into()));
    store(caller, ends.into()).await
}

/// Stores what takes several parts to list, between two ends.
pub(super) async fn fill(caller: &Caller) -> Result<()> {
    let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
    for batch in 0..BATCHES {
        let key = |number| format!("list/k/{batch}/{number:03}");
        let items = (0..BATCH_KEYS).map(|number| item(key(number), value.clone()));
        store(caller, items.collect()).await?;
    }
    store_the_ends(caller, 0).await
}

async fn list(channel: Channel, resume_token: &Bytes) -> Result<Streaming<ListKeysReply>, Status> {
    let request = ListKeysRequest {
        prefix: "list/".to_owned(),
        with_values: true,
        resume_token: resume_token.clone(),
        ..ListKeysRequest::default()
    };
    let mut client = StateServiceClient::new(channel);
    Ok(client.list(with_deadline(request)).await?.into_inner())
}

/// Reads on until the stream ends, well or not.
async fn read_on(
    parts: &mut Streaming<ListKeysReply>,
    into: &mut Vec<ListKeysReply>,
) -> Result<(), Status> {
    while let Some(part) = parts.message().await? {
        into.push(part);
    }
    Ok(())
}

/// Index and clock of the view, which all parts must name.
fn view(parts: &[ListKeysReply]) -> Result<(u64, u64)> {
    let stand = |header: &ReplyHeader| (header.index, header.clock_ms);
    let mut views = parts
        .iter()
        .map(|part| part.header.as_ref().map(stand).unwrap_or_default());
    let first = views.next().context("a list has a part")?;
    promise!(first.0 > 0, "a list does not say its revision");
    for other in views {
        promise!(other == first, "one list, two views: {first:?}, {other:?}");
    }
    Ok(first)
}

/// Value by key. No key may stand twice.
fn rows(parts: &[ListKeysReply]) -> Result<BTreeMap<String, Bytes>> {
    let mut rows = BTreeMap::new();
    for record in parts.iter().flat_map(|part| &part.records) {
        let name = record.info.clone().unwrap_or_default().name;
        let double = rows.insert(name.clone(), record.value.clone());
        promise!(double.is_none(), "{name} is listed twice");
    }
    Ok(rows)
}

async fn write_until(stop: &AtomicBool, caller: &Caller) -> Result<u64> {
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        store_the_ends(caller, round).await?;
    }
    Ok(round)
}

/// Lists again and again. Each list shows both ends as one write left them, and none goes back to an older view.
async fn list_until_newer(caller: &Caller, lists_min: usize) -> Result<()> {
    let (mut lists, mut views) = (0, Vec::new());
    while lists < lists_min || views.first() == views.last() {
        let mut parts = Vec::new();
        let mut stream = list(caller.channel(), &Bytes::new()).await?;
        read_on(&mut stream, &mut parts).await?;
        promise!(parts.len() > 1, "the list came in one part");
        let rows = rows(&parts)?;
        promise!(
            rows.len() == BATCHES * BATCH_KEYS + 2,
            "{} keys are listed",
            rows.len()
        );
        promise!(
            rows.get(FIRST) == rows.get(LAST),
            "a list shows half of a write: {:?}, {:?}",
            rows.get(FIRST),
            rows.get(LAST)
        );
        let view = view(&parts)?;
        promise!(
            views.last().is_none_or(|last| *last <= view),
            "a list went back from {:?} to {view:?}",
            views.last()
        );
        views.push(view);
        lists += 1;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_part_of_a_list_is_of_one_view_while_others_write() -> Result<()> {
    let cluster = nodes(3).start().await?;
    fill(&cluster.caller(1)).await?;
    let stop = AtomicBool::new(false);
    let (writer, reader) = (cluster.caller(2), cluster.caller(3));
    let lists = async {
        let listed = list_until_newer(&reader, 5).await;
        stop.store(true, Ordering::Relaxed);
        listed
    };
    let (written, listed) = tokio::join!(write_until(&stop, &writer), lists);
    listed?;
    assert!(written? > 1, "nothing was written while the lists ran");
    Ok(())
}

#[tokio::test]
async fn a_list_that_is_resumed_goes_on_behind_its_token_on_a_newer_view() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let caller = cluster.caller(1);
    fill(&caller).await?;
    let mut stream = list(caller.channel(), &Bytes::new()).await?;
    let first = stream.message().await?.context("a list has a part")?;
    store_the_ends(&cluster.caller(2), 1).await?;
    let token = first.resume_token.clone();
    let mut old = vec![first.clone()];
    read_on(&mut stream, &mut old).await?;
    let before = view(&old)?;
    assert_eq!(rows(&old)?.get(LAST), Some(&Bytes::from("0")));

    let mut new = Vec::new();
    let mut resumed = list(cluster.caller(3).channel(), &token).await?;
    read_on(&mut resumed, &mut new).await?;
    let after = view(&new)?;
    promise!(
        after.0 > before.0,
        "resumed on {after:?}, not after {before:?}"
    );
    assert_eq!(rows(&new)?.get(LAST), Some(&Bytes::from("1")));
    let mut together = vec![first];
    together.extend(new);
    assert_eq!(rows(&together)?.len(), BATCHES * BATCH_KEYS + 2);
    Ok(())
}

/// A connection on which little is under way unless somebody reads.
fn narrow(cluster: &Cluster) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", cluster.listeners(1).client))?;
    Ok(endpoint.initial_stream_window_size(65_535).connect_lazy())
}

#[tokio::test]
async fn list_left_unread_lapses_and_says_where_to_go_on() -> Result<()> {
    let cluster = nodes(1).start().await?;
    fill(&cluster.caller(1)).await?;
    let mut stream = list(narrow(&cluster)?, &Bytes::new()).await?;
    let mut parts = vec![stream.message().await?.context("a list has a part")?];
    // It is not read any further until the node has given up.
    until("the node to give the list up", async || match probes::get(
        cluster.listeners(1).http,
        "/metrics",
    )
    .await
    {
        Ok((_, text)) if text.contains(r#"code="LIST_LAPSED"} 1"#) => Look::Done(()),
        Ok(_) => Look::NotYet("no list has lapsed".to_owned()),
        Err(error) => Look::NotYet(error.to_string()),
    })
    .await?;
    let Err(status) = read_on(&mut stream, &mut parts).await else {
        panic!("a list that lapsed ended well, after {} parts", parts.len());
    };
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::Aborted, Some(Reason::ListLapsed)),
        "{status}"
    );
    let details = status.get_details_error_info().context("no details")?;
    let token = details
        .metadata
        .get("resume_token")
        .context("no resume token")?;
    let token = Bytes::from(BASE64.decode(token.as_bytes())?);
    let mut rest = list(cluster.caller(1).channel(), &token).await?;
    read_on(&mut rest, &mut parts).await?;
    assert_eq!(rows(&parts)?.len(), BATCHES * BATCH_KEYS + 2);
    Ok(())
}
