//! Lifetimes, absolute and idle.

use std::time::Duration;

use helve_client::{Client, Error, HandleStore, Handles, PutOutcome, Resolved, Ttl};
use helve_proto::v1::{GetReply, GetRequest, HandleStatus, RecordInfo};

use crate::setup::{HOUR, SHORT, Setup, wait_until};

const HOUR_MS: u64 = 3_600_000;

async fn live(store: &Handles<u32>, id: &str) -> Result<RecordInfo, Error> {
    let resolved = store.resolve(id).await?;
    Ok(resolved.live().expect("the handle lives").info)
}

async fn expired(store: &Handles<u32>) -> Result<String, Error> {
    let id = store.mint(&1, Ttl::After(SHORT)).await?;
    wait_until("the handle expires", async || {
        Ok(store.resolve(&id).await? == Resolved::Expired)
    })
    .await?;
    Ok(id)
}

pub(super) async fn put_without_default_clears_the_deadline(setup: Setup) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&1, Ttl::After(HOUR)).await?;
    assert!(store.put(&id, &2, Ttl::Default).await?);
    assert_eq!(live(&store, &id).await?.expires_at_ms, None);
    Ok(())
}

pub(super) async fn put_with_default_resets_it(setup: Setup) -> Result<(), Error> {
    let store = setup
        .client(0)
        .handles::<u32>(setup.options().default_ttl(HOUR));
    let id = store.mint(&1, Ttl::After(2 * HOUR)).await?;
    assert!(store.put(&id, &2, Ttl::Default).await?);
    let info = live(&store, &id).await?;
    assert_eq!(info.expires_at_ms, Some(info.updated_at_ms + HOUR_MS));
    Ok(())
}

pub(super) async fn put_never_makes_immortal(setup: Setup) -> Result<(), Error> {
    let store = setup
        .client(0)
        .handles::<u32>(setup.options().default_ttl(HOUR));
    let id = store.mint(&1, Ttl::Default).await?;
    assert!(store.put(&id, &2, Ttl::Never).await?);
    assert_eq!(live(&store, &id).await?.expires_at_ms, None);
    Ok(())
}

pub(super) async fn put_and_delete_of_an_expired_handle_are_false(
    setup: Setup,
) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = expired(&store).await?;
    assert!(!store.put(&id, &2, Ttl::Default).await?);
    assert_eq!(store.get(&id).await?, None, "nothing was written");
    let outcome = store.put_if(&id, &2, Ttl::Default, 0).await?;
    assert_eq!(outcome, PutOutcome::Expired);
    assert!(!store.delete(&id).await?);
    Ok(())
}

/// A handle, and the cluster's time of the reply.
pub(super) async fn get(client: &Client, store: &str, id: &str) -> Result<(GetReply, u64), Error> {
    let request = GetRequest {
        store: store.to_owned(),
        id: id.to_owned(),
        owner: String::new(),
    };
    let reply = client.call(request).await?;
    let clock_ms = reply
        .header
        .as_ref()
        .expect("every reply has a header")
        .clock_ms;
    Ok((reply, clock_ms))
}

pub(super) async fn a_handle_is_never_served_at_or_after_its_deadline(
    setup: Setup,
) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&1, Ttl::After(HOUR)).await?;
    let Resolved::Live(info) = store.renew(&id, Ttl::After(SHORT)).await? else {
        panic!("an hour is long");
    };
    let deadline_ms = info.expires_at_ms.expect("it was given a lifetime");
    wait_until("the handle expires", async || {
        let (reply, clock_ms) = get(&setup.client(1), &setup.name, &id).await?;
        match reply.status() {
            HandleStatus::Live => assert!(clock_ms < deadline_ms),
            HandleStatus::Expired => assert!(clock_ms >= deadline_ms),
            status => panic!("{status:?}"),
        }
        Ok(reply.status() == HandleStatus::Expired)
    })
    .await
}

pub(super) async fn keep_leaves_the_lifetime(setup: Setup) -> Result<(), Error> {
    let options = setup.options().default_ttl(2 * HOUR).idle_ttl(HOUR);
    let store = setup.client(0).handles::<u32>(options);
    let id = store.mint(&1, Ttl::Default).await?;
    let minted = live(&store, &id).await?;
    assert_eq!(minted.idle_ttl_ms, Some(HOUR_MS));
    let plain = setup.handles::<u32>(0);
    assert!(plain.put(&id, &2, Ttl::Keep).await?);
    let put = live(&store, &id).await?;
    assert_eq!(put.expires_at_ms, minted.expires_at_ms);
    assert_eq!(put.idle_ttl_ms, minted.idle_ttl_ms);
    assert!(put.revision > minted.revision);

    assert!(!plain.put("new", &1, Ttl::Keep).await?);
    let created = live(&plain, "new").await?;
    assert_eq!((created.expires_at_ms, created.idle_ttl_ms), (None, None));
    Ok(())
}

pub(super) async fn renew_changes_the_lifetime_and_not_the_revision(
    setup: Setup,
) -> Result<(), Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&1, Ttl::Never).await?;
    let minted = live(&store, &id).await?;
    let Resolved::Live(renewed) = store.renew(&id, Ttl::After(HOUR)).await? else {
        panic!("it never expires");
    };
    assert_eq!(renewed.revision, minted.revision);
    assert!(renewed.expires_at_ms >= Some(minted.created_at_ms + HOUR_MS));
    let kept = store
        .renew(&id, Ttl::Keep)
        .await?
        .live()
        .expect("an hour is long");
    assert_eq!(kept.expires_at_ms, renewed.expires_at_ms);
    assert_eq!(store.renew("unknown", Ttl::Never).await?, Resolved::Unknown);
    let gone = expired(&store).await?;
    assert_eq!(store.renew(&gone, Ttl::Never).await?, Resolved::Expired);
    Ok(())
}

/// Gets until three idle times have passed. A machine that pauses the case for one says nothing of
/// the handle: then it starts over.
pub(super) async fn a_get_restarts_the_idle_time(setup: Setup) -> Result<(), Error> {
    const IDLE: Duration = Duration::from_millis(400);
    const IDLE_MS: u64 = 400;
    let (client, options) = (setup.client(0), setup.options().idle_ttl(IDLE));
    let store = client.handles::<u32>(options);
    wait_until("a run without a pause of an idle time", async || {
        let id = store.mint(&1, Ttl::Default).await?;
        let (_, begun_ms) = get(&client, &setup.name, &id).await?;
        let mut last_ms = begun_ms;
        while last_ms < begun_ms + 3 * IDLE_MS {
            tokio::time::sleep(IDLE / 8).await;
            let (reply, clock_ms) = get(&client, &setup.name, &id).await?;
            if reply.status() != HandleStatus::Live {
                assert!(
                    clock_ms >= last_ms + IDLE_MS,
                    "it died within one idle time"
                );
                return Ok(false);
            }
            last_ms = clock_ms.max(last_ms);
            // A clock that only moves with writes must not keep the loop from its end.
            store.put("clock", &0, Ttl::Never).await?;
        }
        Ok(true)
    })
    .await
}

pub(super) async fn an_idle_handle_expires(setup: Setup) -> Result<(), Error> {
    let store = setup
        .client(0)
        .handles::<u32>(setup.options().idle_ttl(SHORT));
    let id = store.mint(&1, Ttl::Never).await?;
    wait_until("the handle expires", async || store.is_empty().await).await?;
    assert_eq!(store.resolve(&id).await?, Resolved::Expired);
    Ok(())
}
