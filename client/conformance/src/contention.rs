//! Many callers, one record.

use helve_client::{Error, HandleStore, HandleStoreExt, PutOutcome, Resolved, Ttl};

use crate::setup::{Setup, together};

pub(super) async fn updates_of_sixteen_clients_lose_nothing(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<Vec<usize>>(0);
    let id = store.mint(&Vec::new(), Ttl::Default).await?;
    let updates = (0..16).map(|caller| {
        let (store, id) = (setup.handles::<Vec<usize>>(caller), id.clone());
        async move {
            let change = |mut seen: Vec<usize>| {
                seen.push(caller);
                seen
            };
            store.update(&id, change).await
        }
    });
    for updated in together(updates).await? {
        assert!(matches!(updated, Resolved::Live(_)));
    }
    let mut seen = store.get(&id).await?.expect("it never expires");
    seen.sort_unstable();
    assert_eq!(seen, (0..16).collect::<Vec<_>>());
    Ok(())
}

pub(super) async fn one_of_sixteen_takes_gets_the_value(setup: Setup) -> Result<(), Error> {
    let id = setup.handles::<u32>(0).mint(&7, Ttl::Default).await?;
    let takes = (0..16).map(|caller| {
        let (store, id) = (setup.handles::<u32>(caller), id.clone());
        async move { store.take(&id).await }
    });
    let taken = together(takes).await?;
    let is_taken = |took: &&Resolved<_>| **took == Resolved::Taken;
    assert_eq!(taken.iter().filter(is_taken).count(), 15);
    let values = taken.into_iter().filter_map(Resolved::live);
    assert_eq!(values.map(|record| record.value).collect::<Vec<_>>(), [7]);
    Ok(())
}

pub(super) async fn one_of_sixteen_creations_wins(setup: Setup) -> Result<(), Error> {
    let puts = (0..16).map(|caller| {
        let store = setup.handles::<usize>(caller);
        async move { store.put_if("h", &caller, Ttl::Default, 0).await }
    });
    let outcomes = together(puts).await?;
    let is_created = |outcome: &PutOutcome| matches!(outcome, PutOutcome::Created(_));
    let winners: Vec<_> = (0..16)
        .filter(|caller| is_created(&outcomes[*caller]))
        .collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    assert_eq!(setup.handles::<usize>(1).get("h").await?, Some(winners[0]));
    Ok(())
}

pub(super) async fn update_of_what_is_gone_says_why(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    assert_eq!(store.update("unknown", |n| n).await?, Resolved::Unknown);
    let id = store.mint(&1, Ttl::Default).await?;
    store.take(&id).await?;
    assert_eq!(store.update(&id, |n| n).await?, Resolved::Taken);
    Ok(())
}

pub(super) async fn an_update_that_gives_up_writes_nothing(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&1, Ttl::Default).await?;
    let before = store.resolve(&id).await?;
    let outcome = store.try_update(&id, |_| Err("no")).await?;
    assert_eq!(outcome, Err("no"));
    assert_eq!(store.resolve(&id).await?, before);
    Ok(())
}
