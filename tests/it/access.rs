//! Tokens, tenants and their quotas, over gRPC.

mod command_line;
mod life;
mod matrix;
mod tenants;

use std::time::Duration;

use anyhow::Result;
use helve_proto::v1::{CreateTokenRequest, Quotas, SetTenantRequest, TokenGrant};
use helve_tests::{
    caller::Caller,
    cluster::Cluster,
    token::{Token, grant},
    wait::{Look, until},
};
use tempfile::TempDir;
use tonic::{Code, Status};

use super::nodes;

/// A cluster that asks for tokens.
struct Guarded {
    cluster: Cluster,
    /// Holds the first operator's token.
    directory: TempDir,
}

impl Guarded {
    /// So many nodes, whose level knows tokens.
    async fn start(count: u64) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("operator");
        let operator = Token::new()?;
        operator.write(&file)?;
        let cluster = nodes(count)
            .with("HELVE_AUTH", "tokens")
            .with("HELVE_OPERATOR_TOKEN_FILE", &file.display().to_string())
            .bearing(operator.bearer)
            .start()
            .await?;
        until("the level of tokens", async || {
            match cluster.status(1).await {
                Ok(status) if status.feature_level >= 2 => Look::Done(()),
                answer => Look::NotYet(format!("{answer:?}")),
            }
        })
        .await?;
        Ok(Self { cluster, directory })
    }

    fn operator(&self, seat: u64) -> Caller {
        self.cluster.caller(seat)
    }

    fn caller(&self, seat: u64, token: &Token) -> Caller {
        self.cluster.caller(seat).bearing(&token.bearer)
    }

    async fn tenant(&self, tenant: &str, quotas: Quotas) -> Result<()> {
        let request = SetTenantRequest {
            tenant: tenant.to_owned(),
            quotas: Some(quotas),
        };
        self.operator(1).set_tenant(request).await?;
        Ok(())
    }

    /// A token that every node lets in.
    async fn token(&self, grant: TokenGrant) -> Result<Token> {
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
        };
        self.operator(1).create_token(request).await?;
        Ok(token)
    }

    /// Waits until a node lets a token in, or shuts it out: it does once it has applied the entry that says so.
    async fn becomes(&self, seat: u64, token: &Token, code: Code) -> Result<()> {
        let caller = self.caller(seat, token);
        until("a node to have applied a token", async || {
            let found = caller
                .status()
                .await
                .map_or_else(|status| status.code(), |_| Code::Ok);
            if found == code {
                return Look::Done(());
            }
            Look::NotYet(format!("node {seat} says {found:?}"))
        })
        .await
    }
}

/// What went wrong, for a call that must fail.
fn failed<T: std::fmt::Debug>(answer: Result<T, Status>) -> Status {
    answer.expect_err("the call was to fail")
}
