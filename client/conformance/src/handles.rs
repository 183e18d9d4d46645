//! What handles do besides mcpkit's tests.

use helve_client::{Error, ErrorKind, HandleStore, PutOutcome, Resolved, Ttl};

use crate::setup::{SHORT, Setup, wait_until};

pub(super) async fn resolve_tells_live_expired_taken_and_unknown(
    setup: Setup,
) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let live = store.mint(&1, Ttl::Default).await?;
    let record = store
        .resolve(&live)
        .await?
        .live()
        .expect("it never expires");
    assert_eq!((record.name(), record.value), (live.as_str(), 1));
    assert!(record.revision() > 0);

    let expired = store.mint(&2, Ttl::After(SHORT)).await?;
    wait_until("the handle expires", async || {
        Ok(store.resolve(&expired).await? == Resolved::Expired)
    })
    .await?;

    let taken = store.mint(&3, Ttl::Default).await?;
    let value = store.take(&taken).await?.live().expect("it lived").value;
    assert_eq!(value, 3);
    assert_eq!(store.resolve(&taken).await?, Resolved::Taken);
    assert_eq!(store.take(&taken).await?, Resolved::Taken);

    let deleted = store.mint(&4, Ttl::Default).await?;
    assert!(store.delete(&deleted).await?);
    assert_eq!(store.resolve(&deleted).await?, Resolved::Unknown);
    assert_eq!(store.resolve("never-minted").await?, Resolved::Unknown);
    Ok(())
}

pub(super) async fn put_if_writes_only_on_the_revision(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let PutOutcome::Created(created) = store.put_if("h", &1, Ttl::Default, 0).await? else {
        panic!("there was no such handle");
    };
    let revision = created.revision;
    let conflict = PutOutcome::Conflict { revision };
    for wrong in [0, revision - 1, revision + 1] {
        assert_eq!(store.put_if("h", &2, Ttl::Default, wrong).await?, conflict);
    }
    assert_eq!(store.get("h").await?, Some(1));
    let PutOutcome::Replaced(replaced) = store.put_if("h", &3, Ttl::Default, revision).await?
    else {
        panic!("the revision was right");
    };
    assert!(replaced.revision > revision);
    let absent = store.put_if("absent", &1, Ttl::Default, 7).await?;
    assert_eq!(absent, PutOutcome::Conflict { revision: 0 });
    Ok(())
}

pub(super) async fn a_taken_handle_cannot_be_written(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&1, Ttl::Default).await?;
    store.take(&id).await?;
    assert!(!store.put(&id, &2, Ttl::Default).await?);
    assert_eq!(
        store.put_if(&id, &2, Ttl::Default, 0).await?,
        PutOutcome::Taken
    );
    assert_eq!(store.renew(&id, Ttl::Never).await?, Resolved::Taken);
    assert!(!store.delete(&id).await?);
    Ok(())
}

pub(super) async fn lists_are_in_order_with_values_on_request(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<String>(0);
    // More than one part's worth, and in no order.
    let names: Vec<String> = (0..60).map(|n| format!("{:02}", n * 7 % 60)).collect();
    for name in &names {
        store.put(name, &name.repeat(20_000), Ttl::Default).await?;
    }
    let listing = store.list().await?;
    let mut sorted = names.clone();
    sorted.sort();
    let listed: Vec<_> = listing.items.iter().map(|info| info.name.clone()).collect();
    assert_eq!(listed, sorted);
    assert!(
        listing
            .items
            .iter()
            .all(|info| info.revision <= listing.revision)
    );
    assert!(listing.items.iter().all(|info| info.value_bytes > 40_000));
    let values = store.list_values().await?;
    assert_eq!(values.items.len(), names.len());
    for record in values.items {
        assert_eq!(record.value, record.info.name.repeat(20_000));
    }
    // Within one part, over several, of as many as there are and of more; and of none.
    for max in [1, 40, 60, 61, 0] {
        let first = store.list_first_values(max).await?;
        let listed: Vec<_> = first.items.into_iter().map(|r| r.info.name).collect();
        assert_eq!(listed, sorted[..max.min(sorted.len())]);
    }
    Ok(())
}

pub(super) async fn what_one_node_writes_any_node_reads(setup: Setup) -> Result<(), Error> {
    for round in 0..12 {
        let id = setup
            .handles::<usize>(round)
            .mint(&round, Ttl::Default)
            .await?;
        for node in 0..3 {
            let read = setup.handles::<usize>(node).get(&id).await?;
            assert_eq!(
                read,
                Some(round),
                "minted through {round}, read through {node}"
            );
        }
        let len = setup.handles::<usize>(round + 1).len().await?;
        assert_eq!(len, u64::try_from(round).unwrap_or(0) + 1);
    }
    Ok(())
}

pub(super) async fn a_closed_client_says_so(setup: Setup) -> Result<(), Error> {
    let client = setup.host.own_client();
    let store = client.handles::<u32>(setup.options());
    store.put("h", &1, Ttl::Default).await?;
    client.close();
    client.close();
    let said = [
        store.get("h").await.map(drop),
        store.mint(&1, Ttl::Default).await.map(drop),
        store.list().await.map(drop),
        client
            .transaction()
            .take(&store, "h")
            .commit()
            .await
            .map(drop),
    ];
    for said in said {
        let kind = said.err().map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::Closed));
    }
    Ok(())
}
