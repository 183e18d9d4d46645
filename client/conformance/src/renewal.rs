//! Renewals that race with reads at the deadline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use helve_client::{Client, Error, HandleStore, Handles, Record, Resolved, Ttl};
use helve_proto::v1::HandleStatus;

use crate::{
    lifetimes::get,
    setup::{HOUR, PATIENCE, SHORT, Setup, together, wait_until},
};

const HOUR_MS: u64 = 3_600_000;
const RENEWALS: usize = 5;
const READERS: usize = 4;

/// What the renewing caller tells the readers.
#[derive(Debug, Default)]
struct Renewed {
    /// The last deadline that was acknowledged.
    deadline_ms: AtomicU64,
    is_over: AtomicBool,
}

/// In mcpkit a reader that finds a handle due deletes it, though it has been renewed since.
pub(super) async fn reads_at_the_deadline_do_not_delete_a_renewed_handle(
    setup: Setup,
) -> Result<(), Error> {
    let mut lifetime = SHORT;
    while !survives(&setup, lifetime).await? {
        // The host was too slow to renew in time, so nothing was shown.
        lifetime *= 2;
        assert!(lifetime < PATIENCE, "no renewal comes in time");
    }
    Ok(())
}

/// False if a renewal came too late, by the replicated clock.
async fn survives(setup: &Setup, lifetime: Duration) -> Result<bool, Error> {
    let store = setup.handles::<u32>(0);
    let id = store.mint(&7, Ttl::After(HOUR)).await?;
    let minted = live(&store, &id).await?;
    let renewed = Arc::new(Renewed::default());
    let readers = (0..READERS).map(|reader| {
        let (client, store) = (setup.client(reader), setup.name.clone());
        let (id, renewed) = (id.clone(), Arc::clone(&renewed));
        async move { read(&client, &store, &id, &renewed).await }
    });
    let readers = tokio::spawn(together(readers.collect::<Vec<_>>().into_iter()));
    let in_time = renew(&store, &id, lifetime, &renewed).await;
    renewed.is_over.store(true, Ordering::Release);
    readers.await.expect("no reader panics")?;
    if !in_time? {
        return Ok(false);
    }
    let renewed = live(&store, &id).await?;
    assert_eq!(renewed.value, 7);
    assert_eq!(renewed.revision(), minted.revision());
    Ok(true)
}

async fn live(store: &Handles<u32>, id: &str) -> Result<Record<u32>, Error> {
    let resolved = store.resolve(id).await?;
    Ok(resolved.live().expect("an hour is long"))
}

/// Reads without pause; nothing but a deadline that has passed ends the handle.
async fn read(client: &Client, store: &str, id: &str, renewed: &Renewed) -> Result<(), Error> {
    while !renewed.is_over.load(Ordering::Acquire) {
        let deadline_ms = renewed.deadline_ms.load(Ordering::Acquire);
        let (reply, clock_ms) = get(client, store, id).await?;
        match reply.status() {
            HandleStatus::Live => assert_eq!(reply.value, "7"),
            HandleStatus::Expired => assert!(clock_ms >= deadline_ms, "it was renewed"),
            status => panic!("{status:?}"),
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Renews shortly before each deadline, and at last for an hour. False if one came too late.
async fn renew(
    store: &Handles<u32>,
    id: &str,
    lifetime: Duration,
    renewed: &Renewed,
) -> Result<bool, Error> {
    let clock = store.mint(&0, Ttl::Never).await?;
    let lifetimes = std::iter::repeat_n(lifetime, RENEWALS).chain([HOUR]);
    for next in lifetimes {
        let Resolved::Live(info) = store.renew(id, Ttl::After(next)).await? else {
            let deadline_ms = renewed.deadline_ms.load(Ordering::Acquire);
            assert!(now_ms(store, &clock).await? >= deadline_ms, "it was due");
            return Ok(false);
        };
        let deadline_ms = info.expires_at_ms.expect("it was given a lifetime");
        renewed.deadline_ms.store(deadline_ms, Ordering::Release);
        if next == lifetime {
            let near = Duration::from_millis(deadline_ms) - lifetime / 4;
            wait_until("the deadline is near", async || {
                Ok(Duration::from_millis(now_ms(store, &clock).await?) >= near)
            })
            .await?;
        }
    }
    Ok(true)
}

/// The replicated clock now: that of a write.
async fn now_ms(store: &Handles<u32>, clock: &str) -> Result<u64, Error> {
    let renewed = store.renew(clock, Ttl::After(HOUR)).await?.live();
    let deadline_ms = renewed.and_then(|info| info.expires_at_ms);
    Ok(deadline_ms.expect("it was renewed for an hour") - HOUR_MS)
}
