//! mcpkit's own tests of its handle store, and the decided deviations.

use std::{collections::HashSet, sync::Arc};

use futures::future::try_join_all;
use helve_client::{Error, ErrorKind, HandleOptions, HandleStore, Handles, Ttl};
use serde::{Deserialize, Serialize};

use crate::setup::{HOUR, SHORT, Setup, together, wait_until};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cart {
    items: Vec<String>,
}

fn cart() -> Cart {
    Cart {
        items: vec!["helve".to_owned(), "wedge \u{1f528}".to_owned()],
    }
}

pub(super) async fn mint_and_get(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<Cart>(0);
    let id = store.mint(&cart(), Ttl::Default).await?;
    assert_eq!(store.get(&id).await?, Some(cart()));
    Ok(())
}

pub(super) async fn get_of_a_missing_id_is_none(setup: Setup) -> Result<(), Error> {
    assert_eq!(setup.handles::<Cart>(0).get("no-such-id").await?, None);
    Ok(())
}

pub(super) async fn delete_is_true_once(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<Cart>(0);
    let id = store.mint(&cart(), Ttl::Default).await?;
    assert!(store.delete(&id).await?);
    assert_eq!(store.get(&id).await?, None);
    assert!(!store.delete(&id).await?);
    Ok(())
}

pub(super) async fn put_says_whether_it_existed(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&1, Ttl::Default).await?;
    assert!(store.put(&id, &2, Ttl::Default).await?);
    assert_eq!(store.get(&id).await?, Some(2));
    assert!(!store.put("never-minted", &3, Ttl::Default).await?);
    assert_eq!(store.get("never-minted").await?, Some(3));
    Ok(())
}

pub(super) async fn an_expired_handle_is_not_read_though_nothing_collects(
    setup: Setup,
) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&1, Ttl::After(SHORT)).await?;
    wait_until("the handle expires", async || {
        Ok(store.get(&id).await?.is_none())
    })
    .await
}

pub(super) async fn expired_handles_leave_the_count(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let lasting = try_join_all((0..50).map(|n| {
        let store = &store;
        async move { store.mint(&n, Ttl::After(HOUR)).await }
    }));
    let lasting = lasting.await?;
    assert_eq!(store.len().await?, 50);
    for id in &lasting {
        store.renew(id, Ttl::After(SHORT)).await?;
    }
    wait_until("all expire", async || store.is_empty().await).await
}

pub(super) async fn default_ttl_is_that_of_the_options(setup: Setup) -> Result<(), Error> {
    let client = setup.client(0);
    let long = client.handles::<u32>(setup.options().default_ttl(HOUR));
    let id = long.mint(&1, Ttl::Default).await?;
    let info = long
        .resolve(&id)
        .await?
        .live()
        .expect("an hour is long")
        .info;
    assert_eq!(info.expires_at_ms, Some(info.created_at_ms + 3_600_000));
    let short = client.handles::<u32>(setup.options().default_ttl(SHORT));
    let id = short.mint(&1, Ttl::Default).await?;
    wait_until("the handle expires", async || {
        Ok(short.get(&id).await?.is_none())
    })
    .await
}

pub(super) async fn never_overrides_the_default(setup: Setup) -> Result<(), Error> {
    let client = setup.client(0);
    let store = client.handles::<u32>(setup.options().default_ttl(SHORT));
    let immortal = store.mint(&1, Ttl::Never).await?;
    let mortal = store.mint(&2, Ttl::Default).await?;
    wait_until("the other expires", async || {
        Ok(store.get(&mortal).await?.is_none())
    })
    .await?;
    let record = store
        .resolve(&immortal)
        .await?
        .live()
        .expect("it never expires");
    assert_eq!(record.expires_at_ms(), None);
    Ok(())
}

fn is_minted(id: &str) -> bool {
    let is_base32 = |c: u8| c.is_ascii_uppercase() || (b'2'..=b'7').contains(&c);
    // 128 bits in 26 characters of 5: the last one carries three.
    id.len() == 26 && id.bytes().all(is_base32) && id.ends_with(|c| "AEIMQUY4".contains(c))
}

pub(super) async fn ids_have_the_prefix(setup: Setup) -> Result<(), Error> {
    let plain = setup.handles::<u32>(0).mint(&1, Ttl::Default).await?;
    assert!(is_minted(&plain), "{plain}");
    let options = setup.options().id_prefix("cart");
    let store = setup.client(0).handles::<u32>(options);
    let prefixed = store.mint(&1, Ttl::Default).await?;
    let rest = prefixed.strip_prefix("cart-").unwrap_or("no prefix");
    assert!(is_minted(rest), "{prefixed}");
    Ok(())
}

pub(super) async fn ids_are_unique(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let mut ids = HashSet::new();
    for _ in 0..20 {
        let mints = (0..50).map(|_| store.mint(&1, Ttl::Default));
        ids.extend(try_join_all(mints).await?);
    }
    assert_eq!(ids.len(), 1000);
    Ok(())
}

pub(super) async fn concurrent_mint_get_delete_leave_nothing(setup: Setup) -> Result<(), Error> {
    let rounds = if setup.host.is_in_process() { 200 } else { 20 };
    let workers = (0..20).map(|worker| {
        let store = setup.handles::<u32>(worker);
        async move {
            for n in 0..rounds {
                let id = store.mint(&n, Ttl::Default).await?;
                assert_eq!(store.get(&id).await?, Some(n));
                assert!(store.delete(&id).await?);
            }
            Ok::<_, Error>(())
        }
    });
    together(workers).await?;
    assert_eq!(setup.handles::<u32>(0).len().await?, 0);
    Ok(())
}

pub(super) async fn stores_of_different_names_are_isolated(setup: Setup) -> Result<(), Error> {
    let numbers = setup.handles::<u32>(0);
    let other = HandleOptions::shared(format!("{}-b", setup.name));
    let texts: Handles<String> = setup.client(0).handles(other);
    numbers.put("same", &1, Ttl::Default).await?;
    assert_eq!(texts.get("same").await?, None);
    texts.put("same", &"one".to_owned(), Ttl::Default).await?;
    assert_eq!(numbers.get("same").await?, Some(1));
    assert!(texts.delete("same").await?);
    assert_eq!((numbers.len().await?, texts.len().await?), (1, 0));
    Ok(())
}

pub(super) async fn close_is_idempotent_and_final(setup: Setup) -> Result<(), Error> {
    let (closed, open) = (setup.handles::<u32>(0), setup.handles::<u32>(0));
    let id = closed.mint(&1, Ttl::Default).await?;
    closed.close();
    closed.close();
    let said = [
        closed.get(&id).await.map(drop),
        closed.mint(&2, Ttl::Default).await.map(drop),
        closed.put(&id, &2, Ttl::Default).await.map(drop),
        closed.take(&id).await.map(drop),
        closed.len().await.map(drop),
        closed.list().await.map(drop),
    ];
    for said in said {
        let kind = said.err().map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::Closed));
    }
    assert_eq!(open.get(&id).await?, Some(1));
    Ok(())
}

pub(super) async fn works_through_the_interface(setup: Setup) -> Result<(), Error> {
    let store: Arc<dyn HandleStore<Cart>> = Arc::new(setup.handles::<Cart>(0));
    let id = store.mint(&cart(), Ttl::Default).await?;
    assert_eq!(store.get(&id).await?, Some(cart()));
    assert!(store.delete(&id).await?);
    assert!(store.is_empty().await?);
    Ok(())
}
