//! Nodes that ask for no token, in a cluster that has some.

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use helve_proto::{
    Reason,
    v1::{CreateTokenRequest, ListTenantsRequest, Quotas, SetTenantRequest, TenantInfo, TokenRole},
};
use helve_tests::{
    caller::{Caller, new_identity, reason},
    cluster::Cluster,
    wait::{Look, until},
};
use tonic::Code;

use super::{Guarded, Token, failed, first_operator, grant, hears, knows_tokens, nodes};

const REFUSED: i32 = 2;

/// The seat of the node that asks for nothing.
const OPEN: u64 = 3;

fn ask_for_tokens(cluster: &mut Cluster, seat: u64, operator: &str) {
    let node = cluster.node_mut(seat);
    node.set("HELVE_AUTH", "tokens");
    node.set("HELVE_OPERATOR_TOKEN_FILE", operator);
}

/// Three nodes, one of which asks for nothing.
async fn mixed() -> Result<(Guarded, String)> {
    let directory = tempfile::tempdir()?;
    let (operator, file) = first_operator(&directory)?;
    let mut cluster = nodes(3).bearing(operator).prepare().await?;
    for seat in cluster.seats() {
        if seat != OPEN {
            ask_for_tokens(&mut cluster, seat, &file);
        }
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    knows_tokens(&cluster).await?;
    Ok((Guarded { cluster, directory }, file))
}

fn tenant(tenant: &str) -> SetTenantRequest {
    SetTenantRequest {
        tenant: tenant.to_owned(),
        quotas: Some(Quotas::default()),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_without_auth_makes_no_tokens_and_serves_none_with_them() -> Result<()> {
    let (mut guarded, operator) = mixed().await?;
    let open = guarded.operator(OPEN);
    let token = CreateTokenRequest {
        token_hash: Token::new()?.hash(),
        grant: Some(grant("default", TokenRole::Reader, "shop")),
        expires_after_ms: None,
        ..Default::default()
    };
    for status in [
        failed(open.create_token(token).await),
        failed(open.set_tenant(tenant("acme")).await),
    ] {
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        assert!(status.message().contains("--auth tokens"), "{status:?}");
    }
    open.set_tenant(tenant("default")).await?;
    hears(&open, Code::Ok).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    hears(&open, Code::Unavailable).await?;
    let shut = failed(open.status().await);
    assert_eq!(reason(&shut), Some(Reason::Stopping));
    assert!(shut.message().contains("--auth tokens"), "{shut:?}");
    // It votes on.
    let gone = guarded.cluster.others(OPEN)[0];
    guarded.cluster.kill(gone)?;
    let left = guarded.cluster.others(OPEN)[1];
    guarded.cluster.ready(left).await?;
    guarded.operator(left).set_tenant(tenant("globex")).await?;
    guarded.cluster.start(gone)?;
    guarded.cluster.ready(gone).await?;
    guarded.cluster.kill(OPEN)?;
    guarded.cluster.start(OPEN)?;
    let status = guarded.cluster.node_mut(OPEN).stopped().await?;
    let said = guarded.cluster.node(OPEN).log_tail();
    assert_eq!(status.code(), Some(REFUSED), "{said}");
    assert!(said.contains("--auth"), "{said}");
    ask_for_tokens(&mut guarded.cluster, OPEN, &operator);
    guarded.cluster.start(OPEN)?;
    guarded.cluster.ready(OPEN).await
}

/// A change of quotas, to be retried.
fn rows_at_most(rows: u64) -> SetTenantRequest {
    SetTenantRequest {
        quotas: Some(Quotas {
            rows,
            ..Quotas::default()
        }),
        identity: Some(new_identity()),
        ..tenant("default")
    }
}

/// Sets quotas through a node that may still wait for its cluster's level. It is asked once it
/// knows a leader: a call waits for a raise for half of its time only, which an election may
/// outlast.
async fn first_set(caller: Caller, request: SetTenantRequest) -> Result<Option<TenantInfo>> {
    until("the node to know a leader", async || {
        match caller.status().await {
            Ok(reply) if reply.node.as_ref().is_some_and(|node| node.leader_id != 0) => {
                Look::Done(())
            }
            answer => Look::NotYet(format!("{answer:?}")),
        }
    })
    .await?;
    let set = until("the node to set quotas", async || {
        Look::of(caller.set_tenant(request.clone()).await)
    });
    Ok(set.await?.tenant)
}

#[tokio::test(flavor = "multi_thread")]
async fn set_during_the_first_raise_is_repeated_without_effect() -> Result<()> {
    // Entries take so long that calls come between the election of the leader and the raise.
    let setup = nodes(3).with("HELVE_FAILPOINT", "log-before-ack=delay:200");
    let mut cluster = setup.prepare().await?;
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    let first: Vec<_> = cluster.seats().into_iter().map(rows_at_most).collect();
    let seats = || cluster.seats().into_iter().zip(&first);
    let set = seats().map(|(seat, request)| first_set(cluster.caller(seat), request.clone()));
    let answers = try_join_all(set).await?;
    let last = rows_at_most(1_000);
    first_set(cluster.caller(1), last.clone()).await?;
    for ((seat, request), answer) in seats().zip(answers) {
        let again = first_set(cluster.caller(seat), request.clone()).await?;
        assert_eq!(again, answer, "node {seat}");
    }
    let request = ListTenantsRequest {
        tenant: "default".to_owned(),
    };
    let listed = cluster.caller(1).list_tenants(request).await?.tenants;
    let listed = listed.first().context("no tenant is listed")?;
    assert_eq!(listed.quotas, last.quotas);
    Ok(())
}
