//! Possession is not authority.

use helve_client::{
    Error, HandleStore, NotLive, Owner, PutOutcome, Resolved, StateTool, Transacted, Ttl,
};
use serde_json::json;

use crate::setup::Setup;

pub(super) async fn a_foreign_handle_is_unknown_to_every_call(setup: Setup) -> Result<(), Error> {
    let alice = setup.handles::<u32>(0).for_owner("alice");
    let id = alice.mint(&1, Ttl::Default).await?;
    let taken = alice.mint(&2, Ttl::Default).await?;
    alice.take(&taken).await?;
    let others = ["bob", "alic", "alice2"].map(Owner::named);
    for owner in others.into_iter().chain([Owner::shared()]) {
        let other = alice.for_owner(owner);
        for id in [&id, &taken] {
            assert_eq!(other.resolve(id).await?, Resolved::Unknown);
            assert_eq!(other.take(id).await?, Resolved::Unknown);
            assert_eq!(other.renew(id, Ttl::Never).await?, Resolved::Unknown);
            assert!(!other.delete(id).await?);
            let put = other.put_if(id, &9, Ttl::Default, 1).await?;
            assert_eq!(put, PutOutcome::Conflict { revision: 0 });
            let transacted = setup
                .client(0)
                .transaction()
                .take(&other, id)
                .commit()
                .await?;
            let status = NotLive::Unknown;
            let operation = 0;
            assert_eq!(transacted, Transacted::Aborted { operation, status });
        }
    }
    assert_eq!(alice.get(&id).await?, Some(1));
    Ok(())
}

pub(super) async fn each_owner_has_a_handle_of_the_same_id(setup: Setup) -> Result<(), Error> {
    let alice = setup.handles::<u32>(0).for_owner("alice");
    let bob = alice.for_owner("bob");
    assert!(!alice.put("cart", &1, Ttl::Default).await?);
    assert!(!bob.put("cart", &2, Ttl::Default).await?);
    assert!(bob.delete("cart").await?);
    assert_eq!(alice.get("cart").await?, Some(1));
    Ok(())
}

pub(super) async fn lists_and_counts_are_the_owners(setup: Setup) -> Result<(), Error> {
    let alice = setup.handles::<u32>(0).for_owner("alice");
    let bob = alice.for_owner("bob");
    for id in ["a", "b"] {
        alice.put(id, &1, Ttl::Default).await?;
    }
    bob.put("c", &1, Ttl::Default).await?;
    assert_eq!((alice.len().await?, bob.len().await?), (2, 1));
    assert_eq!(setup.handles::<u32>(0).len().await?, 0);
    let listed = alice.list().await?.items;
    let listed: Vec<_> = listed
        .iter()
        .map(|info| (info.owner.as_str(), info.name.as_str()))
        .collect();
    assert_eq!(listed, [("alice", "a"), ("alice", "b")]);
    Ok(())
}

pub(super) async fn keys_are_the_owners(setup: Setup) -> Result<(), Error> {
    let mine = setup.keys(0);
    let other = mine.for_owner(format!("{}-other", setup.name));
    mine.store("k", &json!(1)).await?;
    assert_eq!(other.retrieve("k").await?, None);
    assert!(other.list("").await?.is_empty());
    other.delete("k").await?;
    assert_eq!(mine.retrieve("k").await?, Some(json!(1)));
    Ok(())
}
