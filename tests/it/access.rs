//! Tokens, tenants and their quotas, over gRPC.

mod certificates;
mod command_line;
mod life;
mod matrix;
mod recorded;
mod scopes;
mod shares;
mod tenants;
mod unguarded;

use std::time::Duration;

use anyhow::Result;
use helve_client::Bearer;
use helve_proto::v1::{CreateTokenRequest, Quotas, SetTenantRequest, TokenGrant};
use helve_tests::{
    caller::Caller,
    cluster::{Cluster, Setup},
    token::{Token, grant},
    wait::{Look, until},
};
use tempfile::TempDir;
use tonic::{Code, Status};

use super::nodes;

/// A cluster that asks for tokens.
pub(super) struct Guarded {
    pub(super) cluster: Cluster,
    /// Holds the first operator's token.
    directory: TempDir,
}

impl Guarded {
    /// This many nodes, whose level knows tokens.
    async fn start(count: u64) -> Result<Self> {
        Self::of(nodes(count)).await
    }

    /// Such nodes, once their level knows tokens.
    pub(super) async fn of(setup: Setup) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (operator, file) = first_operator(&directory)?;
        let cluster = setup
            .with("HELVE_AUTH", "tokens")
            .with("HELVE_OPERATOR_TOKEN_FILE", &file)
            .bearing(operator)
            .start()
            .await?;
        knows_tokens(&cluster).await?;
        Ok(Self { cluster, directory })
    }

    pub(super) fn operator(&self, seat: u64) -> Caller {
        self.cluster.caller(seat)
    }

    /// The file of the operator's token.
    pub(super) fn operator_file(&self) -> String {
        self.directory.path().join("operator").display().to_string()
    }

    pub(super) fn caller(&self, seat: u64, token: &Token) -> Caller {
        self.cluster.caller(seat).bearing(&token.bearer)
    }

    pub(super) async fn tenant(&self, tenant: &str, quotas: Quotas) -> Result<()> {
        let request = SetTenantRequest {
            tenant: tenant.to_owned(),
            quotas: Some(quotas),
            ..Default::default()
        };
        self.operator(1).set_tenant(request).await?;
        Ok(())
    }

    /// A token that every node lets in.
    pub(super) async fn token(&self, grant: TokenGrant) -> Result<Token> {
        let token = self.short_token(grant, None).await?;
        for seat in self.cluster.running() {
            self.becomes(seat, &token, Code::Ok).await?;
        }
        Ok(token)
    }

    async fn short_token(&self, grant: TokenGrant, time: Option<Duration>) -> Result<Token> {
        let token = Token::new()?;
        let request = CreateTokenRequest {
            token_hash: token.hash(),
            grant: Some(grant),
            expires_after_ms: time
                .map(|time| u64::try_from(time.as_millis()))
                .transpose()?,
            ..Default::default()
        };
        self.operator(1).create_token(request).await?;
        Ok(token)
    }

    /// Waits until a node lets a token in, or shuts it out: it does once it has applied the entry that says so.
    async fn becomes(&self, seat: u64, token: &Token, code: Code) -> Result<()> {
        hears(&self.caller(seat, token), code).await
    }
}

/// A token for the first operator, and the file that holds it.
fn first_operator(directory: &TempDir) -> Result<(Bearer, String)> {
    let file = directory.path().join("operator");
    let operator = Token::new()?;
    operator.write(&file)?;
    Ok((operator.bearer, file.display().to_string()))
}

/// Waits until the level of a cluster knows tokens.
async fn knows_tokens(cluster: &Cluster) -> Result<()> {
    until("the level of tokens", async || {
        match cluster.status(1).await {
            Ok(status) if status.feature_level >= 2 => Look::Done(()),
            answer => Look::NotYet(format!("{answer:?}")),
        }
    })
    .await
}

/// Waits until a caller is let in, or shut out.
async fn hears(caller: &Caller, code: Code) -> Result<()> {
    until("a node to have applied who is let in", async || {
        let found = match caller.status().await {
            Ok(_) => Code::Ok,
            Err(status) => status.code(),
        };
        if found == code {
            return Look::Done(());
        }
        Look::NotYet(format!("the caller hears {found:?}"))
    })
    .await
}

/// What went wrong, for a call that must fail.
fn failed<T: std::fmt::Debug>(answer: Result<T, Status>) -> Status {
    answer.expect_err("the call was to fail")
}
