//! Tokens, tenants and quotas of a backup.

use anyhow::{Context as _, Result};
use helve_proto::v1::{MintRequest, Quotas, RevokeTokenRequest, TokenRole};
use helve_tests::{
    caller::new_identity,
    promise,
    token::{Token, grant},
};
use tonic::Code;

use super::{
    super::{access::Guarded, nodes},
    STORE, helve, lose_all, report, restore, text,
};

const TENANT: &str = "acme";

async fn revoke(guarded: &Guarded, token: &Token) -> Result<()> {
    let request = RevokeTokenRequest {
        tenant: TENANT.to_owned(),
        token_hash: token.hash(),
        ..RevokeTokenRequest::default()
    };
    let revoked = guarded.operator(1).revoke_token(request).await?;
    promise!(revoked.existed, "{revoked:?}");
    Ok(())
}

/// How the node of seat 1 answers this token.
async fn heard(guarded: &Guarded, token: &Token) -> Code {
    match guarded.caller(1, token).status().await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

#[tokio::test]
async fn tokens_tenants_and_quotas_are_as_they_were_at_the_backup() -> Result<()> {
    let mut guarded = Guarded::of(nodes(1)).await?;
    let quotas = Quotas {
        rows: 1,
        ..Quotas::default()
    };
    guarded.tenant(TENANT, quotas).await?;
    let writer = guarded
        .token(grant(TENANT, TokenRole::Writer, "shop"))
        .await?;
    let revoked = guarded
        .token(grant(TENANT, TokenRole::Reader, "former"))
        .await?;
    revoke(&guarded, &revoked).await?;

    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = guarded.cluster.listeners(1).client.to_string();
    let file = guarded.operator_file();
    let command = ["backup", text(&to)?, "--endpoints", &endpoint];
    let with_token = [&command[..], &["--token-file", &file]].concat();
    report(&helve(&with_token).await?)?;
    let without = helve(&command).await?;
    promise!(without.status.code() == Some(2), "{without:?}");

    let later = guarded
        .token(grant(TENANT, TokenRole::Reader, "later"))
        .await?;
    lose_all(&mut guarded.cluster)?;
    report(&restore(&to, &guarded.cluster.data_directory(1), &[]).await?)?;
    guarded.cluster.start(1)?;
    guarded.cluster.ready(1).await?;

    let codes = [&writer, &revoked, &later].map(|token| heard(&guarded, token));
    let codes = futures::future::join_all(codes).await;
    promise!(
        codes == [Code::Ok, Code::Unauthenticated, Code::Unauthenticated],
        "{codes:?}"
    );
    let shop = guarded.caller(1, &writer);
    let mint = || MintRequest {
        identity: Some(new_identity()),
        store: STORE.to_owned(),
        value: "tea".into(),
        ..MintRequest::default()
    };
    shop.mint(mint()).await.context("within the quota")?;
    let beyond = shop.mint(mint()).await.map_err(|status| status.code());
    promise!(beyond == Err(Code::ResourceExhausted), "{beyond:?}");
    Ok(())
}
