//! Nodes that ask for no token, in a cluster that has some.

use anyhow::Result;
use helve_proto::{
    Reason,
    v1::{CreateTokenRequest, Quotas, SetTenantRequest, TokenRole},
};
use helve_tests::{caller::reason, cluster::Cluster};
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
async fn a_node_that_asks_for_nothing_makes_no_tokens_serves_nobody_once_there_are_some_and_does_not_start_again()
-> Result<()> {
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
