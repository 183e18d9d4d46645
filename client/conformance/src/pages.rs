//! Pages of lists, and values that are no JSON.

use std::collections::BTreeSet;

use bytes::Bytes;
use helve_client::{
    Error, ErrorKind, HandleStore, HandleStoreExt, NotLive, Owner, Page, Raw, Record, StateTool,
    TakeOutcome, Transacted, Ttl,
};
use serde_json::json;

use crate::{setup::Setup, tool::ToolSetup};

/// How many records are listed, and how many a page has: the last page has one.
const RECORDS: usize = 10;
const PAGE: usize = 3;

fn names<I>(page: &Page<I>, name: impl Fn(&I) -> &str) -> Vec<String> {
    page.items
        .iter()
        .map(|item| name(item).to_owned())
        .collect()
}

pub(super) async fn pages_of_handles_are_the_whole_list_in_order(
    setup: Setup,
) -> Result<(), Error> {
    let store = setup.handles::<usize>(0);
    let other = store.for_owner("somebody");
    let id = |number: usize| format!("h-{number:02}");
    for number in 0..RECORDS {
        store.put(&id(number), &number, Ttl::Default).await?;
        other.put(&id(number), &number, Ttl::Default).await?;
    }
    let mut after = None;
    let mut listed = Vec::new();
    loop {
        let page = store.list_page(after.as_deref(), PAGE).await?;
        let values = store.list_values_page(after.as_deref(), PAGE).await?;
        let infos = names(&page, |info| &info.name);
        assert_eq!(infos, names(&values, Record::name));
        assert_eq!(page.next, values.next);
        assert!(infos.len() <= PAGE && page.revision > 0);
        listed.extend(values.items.into_iter().map(|record| record.value));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, (0..RECORDS).collect::<Vec<_>>());
    let first = store.list_first_values(2).await?;
    assert_eq!(first.items.len(), 2);
    // It begins behind a name, whether or not there is such a handle.
    let page = store.list_page(Some("h-04x"), 1).await?;
    assert_eq!(names(&page, |info| &info.name), [id(5)]);
    assert_eq!(page.next, Some(id(5)));
    let past = store.list_page(Some("h-99"), 1).await?;
    assert!(past.items.is_empty() && past.next.is_none());
    Ok(())
}

pub(super) async fn pages_of_keys_are_the_whole_list_in_order(
    setup: ToolSetup,
) -> Result<(), Error> {
    let tool = setup.tool(0);
    let key = |number: usize| format!("p/{number:02}");
    for number in 0..RECORDS {
        tool.store(&key(number), &json!(number)).await?;
    }
    for stranger in ["o/1", "p", "q/1"] {
        tool.store(stranger, &json!(0)).await?;
    }
    let mut after = None;
    let mut listed = BTreeSet::new();
    loop {
        let page = tool.list_page("p/", after.as_deref(), PAGE).await?;
        let values = tool.list_values_page("p/", after.as_deref(), PAGE).await?;
        let infos = names(&page, |info| &info.name);
        assert_eq!(infos, names(&values, Record::name));
        assert_eq!(page.next, values.next);
        assert!(infos.len() <= PAGE);
        for record in values.items {
            assert_eq!(record.value, json!(listed.len()), "{}", record.name());
            assert!(listed.insert(record.info.name), "listed twice");
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, (0..RECORDS).map(key).collect());
    // A place before the prefix is its start, and one behind it is its end.
    let page = tool.list_page("p/", Some("a"), PAGE).await?;
    assert_eq!(names(&page, |info| &info.name), [key(0), key(1), key(2)]);
    let past = tool.list_page("p/", Some("q"), PAGE).await?;
    assert!(past.items.is_empty() && past.next.is_none());
    // The page that ends with the last key is the last.
    let all = tool.list_page("p/", None, RECORDS).await?;
    assert_eq!((all.items.len(), all.next), (RECORDS, None));
    Ok(())
}

pub(super) async fn a_mint_answers_the_revision_on_which_a_take_is_conditional(
    setup: Setup,
) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let minted = store.mint_record(&1, Ttl::Default).await?;
    let id = minted.name.as_str();
    let record = store.resolve(id).await?.live().expect("it was just minted");
    assert_eq!(record.info, minted);
    store.update(id, |value| value + 1).await?;
    let revision = store
        .resolve(id)
        .await?
        .live()
        .expect("it lives")
        .revision();
    let conflict = TakeOutcome::Conflict { revision };
    assert_eq!(store.take_if(id, minted.revision).await?, conflict);
    let TakeOutcome::Took(taken) = store.take_if(id, revision).await? else {
        panic!("the revision was right");
    };
    assert_eq!(taken.value, 2);
    let gone = TakeOutcome::NotLive(NotLive::Taken);
    assert_eq!(store.take_if(id, revision).await?, gone);
    Ok(())
}

pub(super) async fn bytes_are_kept_as_they_are(setup: Setup) -> Result<(), Error> {
    let client = setup.client(0);
    let store = client.handles_with::<Bytes, _>(setup.options(), Raw);
    let bytes = Bytes::from_static(&[0, 255, b'"', 0xc3, 0x28]);
    let minted = store.mint_record(&bytes, Ttl::Default).await?;
    assert_eq!(minted.value_bytes, bytes.len() as u64);
    assert_eq!(store.get(&minted.name).await?, Some(bytes.clone()));
    let listed = store.list_values_page(None, 1).await?;
    assert_eq!(listed.items[0].value, bytes);
    let as_json = setup.handles::<String>(0).get(&minted.name).await;
    assert_eq!(as_json.map_err(|error| error.kind()), Err(ErrorKind::Codec));
    let transaction = client.transaction().take(&store, &minted.name);
    let Transacted::Committed(committed) = transaction
        .mint(&store, &bytes, Ttl::Default)
        .commit()
        .await?
    else {
        panic!("it lived");
    };
    assert_eq!(committed.taken_with::<Bytes>(0, &Raw)?.value, bytes);

    let keys = setup.keys(0);
    let stored = keys.store_bytes("k", bytes.clone(), Ttl::Default).await?;
    let found = keys.retrieve_bytes("k").await?.expect("it was just stored");
    assert_eq!((found.value, found.info.revision), (bytes, stored.revision));
    let refused = keys.retrieve("k").await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Codec));
    Ok(())
}

pub(super) async fn keys_hold_bytes_beside_json_in_lists_batches_and_transactions(
    setup: Setup,
) -> Result<(), Error> {
    let (client, keys) = (setup.client(0), setup.keys(0));
    let bytes = Bytes::from_static(&[0, 255, b'"', 0xc3, 0x28]);
    let transaction = client
        .transaction()
        .store(&keys, "a", &json!([1]), Ttl::Default)
        .store_bytes(&keys, "b", bytes.clone(), Ttl::Default);
    let shown = format!("{transaction:?}");
    assert!(shown.starts_with("Transaction(2 operations, "), "{shown}");
    assert!(!shown.contains("xff") && !shown.contains('\n'), "{shown}");
    assert!(matches!(
        transaction.commit().await?,
        Transacted::Committed(_)
    ));
    keys.batch_store_bytes(&[("c".to_owned(), bytes.clone())])
        .await?;
    let json = Bytes::from_static(b"[1]");
    let names = ["c", "a", "none", "b"].map(str::to_owned);
    let found = keys.batch_retrieve_bytes(&names).await?;
    let expected = [
        Some(bytes.clone()),
        Some(json.clone()),
        None,
        Some(bytes.clone()),
    ];
    assert_eq!(found, expected);
    let page = keys.list_bytes_page("", None, 2).await?;
    let values = page.items.into_iter().map(|record| record.value);
    assert_eq!(values.collect::<Vec<_>>(), [json, bytes]);
    assert_eq!(page.next.as_deref(), Some("b"));
    assert_eq!(keys.retrieve("a").await?, Some(json!([1])));
    Ok(())
}

pub(super) async fn value_that_does_not_decode_is_named_and_hides_no_page_before_it(
    setup: Setup,
) -> Result<(), Error> {
    let client = setup.client(0);
    let raw = client.handles_with::<Bytes, _>(setup.options(), Raw);
    let bytes = Bytes::from_static(b"x");
    let (store, keys) = (setup.handles::<u32>(0), setup.keys(0));
    for good in ["a", "b"] {
        store.put(good, &1, Ttl::Default).await?;
        keys.store(good, &json!(1)).await?;
    }
    raw.put("c", &bytes, Ttl::Default).await?;
    keys.store_bytes("c", bytes, Ttl::Default).await?;
    assert_eq!(store.list_values_page(None, 2).await?.items.len(), 2);
    assert_eq!(keys.list_values_page("", None, 2).await?.items.len(), 2);
    let named = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Codec);
        assert!(error.to_string().contains("record \"c\""), "{error}");
        true
    };
    assert!(store.list_values().await.is_err_and(named));
    assert!(store.list_values_page(Some("a"), 2).await.is_err_and(named));
    assert!(keys.list_values("").await.is_err_and(named));
    let three = ["a", "b", "c"].map(str::to_owned);
    assert!(keys.batch_retrieve(&three).await.is_err_and(named));
    assert!(keys.retrieve("c").await.is_err_and(named));
    Ok(())
}

pub(super) async fn an_owner_without_a_name_is_refused_unsent(setup: Setup) -> Result<(), Error> {
    let shared = setup.handles::<u32>(0);
    let id = shared.mint(&1, Ttl::Default).await?;
    let nameless = shared.for_owner("");
    let invalid = |error: Error| error.kind() == ErrorKind::Invalid;
    assert!(nameless.get(&id).await.is_err_and(invalid));
    assert!(nameless.mint(&1, Ttl::Default).await.is_err_and(invalid));
    assert!(nameless.list().await.is_err_and(invalid));
    assert!(nameless.list_page(None, 1).await.is_err_and(invalid));
    assert!(nameless.len().await.is_err_and(invalid));
    let transaction = setup.client(0).transaction().take(&nameless, &id);
    assert!(transaction.commit().await.is_err_and(invalid));
    let keys = setup.keys(0).for_owner(String::new());
    assert!(keys.store("k", &json!(1)).await.is_err_and(invalid));
    assert!(keys.retrieve("k").await.is_err_and(invalid));
    assert!(keys.list("").await.is_err_and(invalid));
    let guards = setup.client(0).guards("");
    let guard = guards.try_acquire("g", crate::setup::HOUR).await;
    assert!(guard.is_err_and(invalid));
    assert_eq!(nameless.for_owner(Owner::shared()).get(&id).await?, Some(1));
    Ok(())
}
