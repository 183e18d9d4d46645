//! Several writes as one.

use helve_client::{Error, ErrorKind, HandleStore, NotLive, Resolved, StateTool, Transacted, Ttl};
use helve_proto::v1::WriteStatus;
use serde_json::{Value, json};

use crate::setup::{HOUR, SHORT, Setup, wait_until};

pub(super) async fn a_checkout_takes_the_cart_and_stores_the_order(
    setup: Setup,
) -> Result<(), Error> {
    let (carts, orders) = (setup.handles::<Value>(0), setup.keys(0));
    let cart = carts.mint(&json!(["helve"]), Ttl::After(HOUR)).await?;
    let checkout = async |node| {
        let order = json!({"of": "helve"});
        let transaction = setup.client(node).transaction();
        let transaction = transaction
            .take(&carts, &cart)
            .store(&orders, &cart, &order, Ttl::Never);
        transaction.commit().await
    };
    let Transacted::Committed(committed) = checkout(0).await? else {
        panic!("the cart lived");
    };
    assert_eq!(committed.taken::<Value>(0)?.value, json!(["helve"]));
    let order = orders.retrieve_record(&cart).await?.expect("it was stored");
    assert_eq!(order.revision(), committed.revision);
    let again = checkout(1).await?;
    let (operation, status) = (0, NotLive::Taken);
    assert_eq!(again, Transacted::Aborted { operation, status });
    assert_eq!(orders.retrieve_record(&cart).await?, Some(order));
    Ok(())
}

pub(super) async fn what_does_not_live_aborts_all(setup: Setup) -> Result<(), Error> {
    let (store, keys, client) = (setup.handles::<u32>(0), setup.keys(0), setup.client(0));
    let live = store.mint(&1, Ttl::Default).await?;
    let gone = store.mint(&2, Ttl::After(SHORT)).await?;
    wait_until("the handle expires", async || {
        Ok(store.get(&gone).await?.is_none())
    })
    .await?;
    for (id, status) in [
        (gone.as_str(), NotLive::Expired),
        ("unknown", NotLive::Unknown),
    ] {
        let transaction = client
            .transaction()
            .store(&keys, "k", &1, Ttl::Default)
            .put(&store, &live, &9, Ttl::Default)
            .mint(&store, &3, Ttl::Default)
            .take(&store, id);
        let operation = 3;
        assert_eq!(
            transaction.commit().await?,
            Transacted::Aborted { operation, status }
        );
    }
    assert_eq!(store.get(&live).await?, Some(1));
    assert_eq!(store.len().await?, 1);
    assert!(!keys.exists("k").await?);
    Ok(())
}

pub(super) async fn a_conflict_aborts_all_and_names_the_operation(
    setup: Setup,
) -> Result<(), Error> {
    let (store, keys, client) = (setup.handles::<u32>(0), setup.keys(0), setup.client(0));
    keys.store("k", &json!(1)).await?;
    let stored = keys.retrieve_record("k").await?.expect("it was stored");
    let (revision, operation) = (stored.revision(), 1);
    let transaction = client
        .transaction()
        .put(&store, "h", &1, Ttl::Default)
        .store(&keys, "k", &2, Ttl::Default)
        .if_revision(0);
    let kind = transaction.commit().await.err().map(|error| error.kind());
    let conflict = ErrorKind::Conflict {
        revision,
        operation,
    };
    assert_eq!(kind, Some(conflict));
    assert_eq!(store.resolve("h").await?, Resolved::Unknown);
    assert_eq!(keys.retrieve_record("k").await?, Some(stored));
    Ok(())
}

pub(super) async fn every_operation_answers_in_order(setup: Setup) -> Result<(), Error> {
    let (store, keys, client) = (setup.handles::<u32>(0), setup.keys(0), setup.client(0));
    let ids = ["taken", "renewed", "deleted", "replaced"];
    for (n, id) in (0..).zip(ids) {
        store.put(id, &n, Ttl::Default).await?;
    }
    keys.store("old", &json!(1)).await?;
    let transaction = client
        .transaction()
        .mint(&store, &10, Ttl::Default)
        .put(&store, "replaced", &11, Ttl::Default)
        .take(&store, "taken")
        .renew(&store, "renewed", Ttl::After(HOUR))
        .delete(&store, "deleted")
        .store(&keys, "new", &12, Ttl::Default)
        .if_revision(0)
        .delete_key(&keys, "old");
    let Transacted::Committed(committed) = transaction.commit().await? else {
        panic!("all of them lived");
    };
    let names = [0, 1, 2, 3, 5].map(|n| committed.info(n).map(|info| info.name.clone()));
    let minted = names[0].clone().expect("a mint answers its handle");
    let rest = ["replaced", "taken", "renewed", "new"].map(|name| Some(name.to_owned()));
    assert_eq!(names[1..], rest);
    assert_eq!(store.get(&minted).await?, Some(10));
    assert_eq!(committed.taken::<u32>(2)?.value, 0);
    let statuses = [1, 5, 6].map(|n| committed.replies[n].status());
    let created = WriteStatus::Created;
    assert_eq!(
        statuses,
        [WriteStatus::Replaced, created, WriteStatus::Replaced]
    );
    let renewed = store
        .resolve("renewed")
        .await?
        .live()
        .expect("an hour is long");
    assert!(renewed.info.expires_at_ms.is_some());
    assert!(renewed.revision() < committed.revision);
    assert_eq!(store.resolve("deleted").await?, Resolved::Unknown);
    assert_eq!(keys.list("").await?, ["new"]);
    Ok(())
}

pub(super) async fn a_transaction_over_a_closed_store_says_so(setup: Setup) -> Result<(), Error> {
    let (store, keys) = (setup.handles::<u32>(0), setup.keys(0));
    let over_both = || {
        let transaction = setup.client(0).transaction();
        transaction
            .put(&store, "h", &1, Ttl::Default)
            .store(&keys, "k", &1, Ttl::Default)
    };
    let begun_before = over_both();
    keys.close();
    for transaction in [begun_before, over_both()] {
        let said = transaction.commit().await;
        let kind = said.err().map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::Closed));
    }
    assert_eq!(store.get("h").await?, None, "nothing was written");
    Ok(())
}
