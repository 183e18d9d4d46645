//! What one token may take of its tenant, and what a tenant may leave behind it, on a node.

use anyhow::{Context as _, Result};
use helve_machine::limits;
use helve_proto::{
    Reason,
    v1::{DeleteRequest, ListTenantsRequest, OpenSessionRequest, Quotas, TokenRole},
};
use helve_tests::{
    attack::replay::{deletes_of_nothing, identity_of, now_ms, open_sessions},
    caller::Caller,
};

use super::{Guarded, grant};

/// A node, and callers of one tenant: an honest one and another.
async fn two_callers(quotas: Quotas) -> Result<(Guarded, Caller, Caller)> {
    let guarded = Guarded::start(1).await?;
    guarded.tenant("acme", quotas).await?;
    let ann = guarded.token(grant("acme", TokenRole::Writer, "ann"));
    let ann = guarded.caller(1, &ann.await?);
    let mallory = guarded.token(grant("acme", TokenRole::Writer, "mallory"));
    let mallory = guarded.caller(1, &mallory.await?);
    Ok((guarded, ann, mallory))
}

async fn open(caller: &Caller, byte: u8) -> Result<(), tonic::Status> {
    let open = OpenSessionRequest {
        session_id: vec![byte; limits::IDENTITY_BYTES].into(),
    };
    caller.open_session(open).await.map(drop)
}

fn delete_now() -> DeleteRequest {
    DeleteRequest {
        identity: Some(identity_of(now_ms())),
        store: "cart".to_owned(),
        id: "a".to_owned(),
        ..DeleteRequest::default()
    }
}

async fn used_bytes(guarded: &Guarded) -> Result<u64> {
    let request = ListTenantsRequest {
        tenant: "acme".to_owned(),
    };
    let tenants = guarded.operator(1).list_tenants(request).await?.tenants;
    let usage = tenants.first().and_then(|tenant| tenant.usage);
    Ok(usage.context("a tenant has a usage")?.bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_token_refuse_no_other_token() -> Result<()> {
    let (_guarded, ann, mallory) = two_callers(Quotas::default()).await?;
    let ends = open_sessions(&mallory, limits::PRINCIPAL_SESSIONS_MAX + 100).await;
    assert_eq!(ends.done, limits::PRINCIPAL_SESSIONS_MAX, "{ends:?}");
    assert_eq!(ends.refused_as(Reason::Quota), 100, "{ends:?}");
    open(&ann, 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn request_ids_ahead_of_the_clock_refuse_no_other_token() -> Result<()> {
    let (_guarded, ann, mallory) = two_callers(Quotas::default()).await?;
    let ahead_ms = now_ms() + 58_000;
    let over = 100;
    let count = limits::PRINCIPAL_REQUESTS_MAX + over;
    let ends = deletes_of_nothing(&mallory, ahead_ms, count).await;
    assert_eq!(ends.refused_as(Reason::Quota), over, "{ends:?}");
    ann.delete(delete_now()).await?;
    // Its own floor did not pass the clock either.
    let refused = mallory.delete(delete_now()).await.unwrap_err();
    assert_eq!(
        helve_tests::caller::reason(&refused),
        Some(Reason::Quota),
        "{refused}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_of_nothing_keep_a_tenant_within_its_bytes() -> Result<()> {
    const QUOTA: u64 = 16 << 10;
    let quotas = Quotas {
        bytes: QUOTA,
        ..Quotas::default()
    };
    let (guarded, _ann, mallory) = two_callers(quotas).await?;
    let ends = deletes_of_nothing(&mallory, now_ms(), 5_000).await;
    assert!(ends.done > 0, "{ends:?}");
    let used = used_bytes(&guarded).await?;
    assert!(used > QUOTA / 4 && used < 2 * QUOTA, "{used} {ends:?}");
    Ok(())
}
