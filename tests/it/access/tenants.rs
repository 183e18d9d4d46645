//! What tenants see of each other, and what they may use.

use std::time::Duration;

use anyhow::Result;
use helve_client::{ClusterBuilder, KeyOptions, StateTool as _};
use helve_proto::{
    Reason,
    v1::{
        CreateTokenRequest, DeleteRequest, GetRequest, HandleStatus, ListRequest,
        ListTenantsRequest, ListTokensRequest, OpenSessionRequest, PutRequest, Quotas, SessionCall,
        SetTenantRequest, TokenRole, call_identity::Identity,
    },
};
use helve_tests::{
    caller::{new_identity, reason},
    wait::{Look, until},
};
use tonic_types::StatusExt as _;

use super::{Guarded, Token, failed, grant};

fn put(id: &str) -> PutRequest {
    PutRequest {
        store: "cart".to_owned(),
        id: id.to_owned(),
        value: "v".into(),
        ..PutRequest::default()
    }
}

fn get(id: &str) -> GetRequest {
    GetRequest {
        store: "cart".to_owned(),
        id: id.to_owned(),
        ..GetRequest::default()
    }
}

async fn two_tenants(quotas: Quotas) -> Result<(Guarded, Token, Token)> {
    let guarded = Guarded::start(1).await?;
    guarded.tenant("acme", quotas).await?;
    guarded.tenant("globex", Quotas::default()).await?;
    let acme = guarded
        .token(grant("acme", TokenRole::Writer, "shop"))
        .await?;
    let globex = guarded
        .token(grant("globex", TokenRole::Writer, "shop"))
        .await?;
    Ok((guarded, acme, globex))
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_do_not_see_each_other_and_an_admin_manages_its_own_alone() -> Result<()> {
    let (guarded, acme, globex) = two_tenants(Quotas::default()).await?;
    let (acme, globex) = (guarded.caller(1, &acme), guarded.caller(1, &globex));
    acme.put(put("a")).await?;
    assert_eq!(globex.get(get("a")).await?.status(), HandleStatus::Unknown);
    let all = ListRequest {
        store: "cart".to_owned(),
        ..ListRequest::default()
    };
    let listed = globex.list(all).await?;
    assert!(
        listed.iter().all(|part| part.handles.is_empty()),
        "{listed:?}"
    );
    let admin = guarded
        .token(grant("acme", TokenRole::Admin, "boss"))
        .await?;
    let admin = guarded.caller(1, &admin);
    let tokens = admin
        .list_tokens(ListTokensRequest::default())
        .await?
        .tokens;
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    let tenants = admin
        .list_tenants(ListTenantsRequest::default())
        .await?
        .tenants;
    assert_eq!(tenants.len(), 1, "{tenants:?}");
    for tenant in ["globex", "default"] {
        let request = ListTokensRequest {
            tenant: tenant.to_owned(),
        };
        assert_eq!(
            reason(&failed(admin.list_tokens(request).await)),
            Some(Reason::Denied)
        );
    }
    for (tenant, role) in [("globex", TokenRole::Reader), ("", TokenRole::Operator)] {
        let request = CreateTokenRequest {
            token_hash: Token::new()?.hash(),
            grant: Some(grant(tenant, role, "boss")),
            expires_after_ms: None,
            ..Default::default()
        };
        assert_eq!(
            reason(&failed(admin.create_token(request).await)),
            Some(Reason::Denied)
        );
    }
    let own = CreateTokenRequest {
        token_hash: Token::new()?.hash(),
        grant: Some(grant("acme", TokenRole::Reader, "clerk")),
        expires_after_ms: None,
        ..Default::default()
    };
    admin.create_token(own).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_duplicate_of_old_quotas_is_answered_and_reverts_nothing() -> Result<()> {
    let (guarded, ..) = two_tenants(Quotas::default()).await?;
    let set = |rows| SetTenantRequest {
        tenant: "acme".to_owned(),
        quotas: Some(Quotas {
            rows,
            ..Quotas::default()
        }),
        identity: Some(new_identity()),
    };
    let old = set(1);
    let first = guarded.operator(1).set_tenant(old.clone()).await?.tenant;
    guarded.operator(1).set_tenant(set(2)).await?;
    for seat in guarded.cluster.seats() {
        let again = guarded.operator(seat).set_tenant(old.clone()).await?;
        assert_eq!(again.tenant, first, "node {seat}");
    }
    let request = ListTenantsRequest {
        tenant: "acme".to_owned(),
    };
    let listed = guarded.operator(1).list_tenants(request).await?.tenants;
    let quotas = listed.first().and_then(|tenant| tenant.quotas);
    assert_eq!(quotas.map(|quotas| quotas.rows), Some(2));
    let reused = SetTenantRequest {
        identity: old.identity,
        ..set(3)
    };
    assert_eq!(
        reason(&failed(guarded.operator(1).set_tenant(reused).await)),
        Some(Reason::ReplayMismatch)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_over_its_quota_fails_alone_and_may_delete() -> Result<()> {
    let quotas = Quotas {
        rows: 2,
        ..Quotas::default()
    };
    let (guarded, acme, globex) = two_tenants(quotas).await?;
    let (acme, globex) = (guarded.caller(1, &acme), guarded.caller(1, &globex));
    for id in ["a", "b"] {
        acme.put(put(id)).await?;
    }
    assert_eq!(
        reason(&failed(acme.put(put("c")).await)),
        Some(Reason::Quota)
    );
    for id in ["a", "b", "c"] {
        globex.put(put(id)).await?;
    }
    let delete = DeleteRequest {
        store: "cart".to_owned(),
        id: "a".to_owned(),
        ..DeleteRequest::default()
    };
    acme.delete(delete).await?;
    acme.put(put("c")).await?;
    let request = ListTenantsRequest {
        tenant: "acme".to_owned(),
    };
    let tenants = guarded.operator(1).list_tenants(request).await?.tenants;
    assert_eq!(tenants[0].usage.map(|used| used.rows), Some(2));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_writes_too_fast_is_told_when_to_come_back() -> Result<()> {
    let quotas = Quotas {
        writes_per_second: 1,
        ..Quotas::default()
    };
    let (guarded, acme, globex) = two_tenants(quotas).await?;
    let client = ClusterBuilder::new(guarded.cluster.endpoints()).token(acme.bearer.clone());
    let keys = client.build()?.keys(KeyOptions::shared());
    let (acme, globex) = (guarded.caller(1, &acme), guarded.caller(1, &globex));
    let refused = until("a write above the rate", async || {
        match acme.put(put("a")).await {
            Err(status) => Look::Done(status),
            Ok(_) => Look::NotYet("every write went through".to_owned()),
        }
    })
    .await?;
    assert_eq!(reason(&refused), Some(Reason::Overloaded), "{refused:?}");
    let details = refused
        .get_details_error_info()
        .expect("a reason has details");
    assert_eq!(details.metadata["retry_after_ms"], "500");
    let pause = refused.get_details_retry_info();
    let pause = pause.and_then(|info| info.retry_delay);
    assert_eq!(pause, Some(Duration::from_millis(500)));
    globex.put(put("a")).await?;
    let retry = async || Look::of(acme.put(put("a")).await);
    until("the next second's write", retry).await?;
    // The client crate comes back by itself.
    for key in ["a", "b", "c"] {
        keys.store(key, &serde_json::json!(1)).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_request_of_another_principal_is_not_answered() -> Result<()> {
    let guarded = Guarded::start(1).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    let (ann, bob) = (
        guarded
            .token(grant("acme", TokenRole::Writer, "ann"))
            .await?,
        guarded
            .token(grant("acme", TokenRole::Writer, "bob"))
            .await?,
    );
    let (ann, bob) = (guarded.caller(1, &ann), guarded.caller(1, &bob));
    let session_id = bytes::Bytes::from_static(&[7; 16]);
    let open = || OpenSessionRequest {
        session_id: session_id.clone(),
    };
    ann.open_session(open()).await?;
    let identity = Identity::Session(SessionCall {
        session_id: session_id.clone(),
        seq: 1,
        first_incomplete: 1,
    });
    let mut request = put("a");
    request.identity = Some(helve_proto::v1::CallIdentity {
        identity: Some(identity),
    });
    let first = ann.put(request.clone()).await?;
    assert_eq!(ann.put(request.clone()).await?.info, first.info);
    for refused in [
        reason(&failed(bob.put(request).await)),
        reason(&failed(bob.open_session(open()).await)),
    ] {
        assert_eq!(refused, Some(Reason::SessionExpired));
    }
    Ok(())
}
