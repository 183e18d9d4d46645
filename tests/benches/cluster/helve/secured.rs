//! The same nodes with everything on that keeps strangers out: TLS to clients, mutual TLS among the nodes, tokens, sealing at rest and
//! the audit log of writes, with what else they have by default.

use std::fs;

use anyhow::Result;
use helve_client::ClusterBuilder;
use helve_proto::v1::{CreateTokenRequest, TokenRole};
use helve_tests::{
    cluster::{Cluster, Equipment, Setup},
    token::{Token, grant, write_secret},
};
use tempfile::TempDir;

/// The tenant that every cluster has.
const TENANT: &str = "default";

/// A cluster, and what its nodes and clients hold.
pub(super) struct Secured {
    pub(super) cluster: Cluster,
    pub(super) secrets: TempDir,
    writer: Token,
}

impl Secured {
    /// Starts the nodes, and lets a writer in.
    pub(super) async fn start(setup: Setup) -> Result<Self> {
        let secrets = tempfile::Builder::new()
            .prefix("helve-bench-secrets-")
            .tempdir()?;
        let at = |name: &str| secrets.path().join(name);
        let operator = Token::new()?;
        operator.write(&at("operator-token"))?;
        write_secret(&at("data.key"), &[7; 32])?;
        let shown = |name: &str| at(name).display().to_string();
        let setup = setup
            .on(Equipment::Certificates)
            .with("HELVE_AUTH", "tokens")
            .with("HELVE_OPERATOR_TOKEN_FILE", &shown("operator-token"))
            .with("HELVE_DATA_KEY_FILE", &shown("data.key"))
            .bearing(operator.bearer);
        let mut cluster = setup.prepare().await?;
        for seat in cluster.seats() {
            let log = at(&format!("audit-{seat}"));
            fs::create_dir(&log)?;
            let log = log.join("log").display().to_string();
            cluster.node_mut(seat).set("HELVE_AUDIT_LOG", &log);
            cluster.start(seat)?;
        }
        // A node with a key is ready once the cluster seals, which it does only at the level that knows tokens.
        cluster.all_ready().await?;
        let writer = Token::new()?;
        let request = CreateTokenRequest {
            token_hash: writer.hash(),
            grant: Some(grant(TENANT, TokenRole::Writer, "bench")),
            expires_after_ms: None,
            ..Default::default()
        };
        cluster.caller(1).create_token(request).await?;
        Ok(Self {
            cluster,
            secrets,
            writer,
        })
    }

    /// A client that trusts the nodes, and that they let in.
    pub(super) fn client(&self, builder: ClusterBuilder) -> Result<ClusterBuilder> {
        let tls = self.cluster.certificates()?.trusted();
        Ok(builder.tls(tls).token(self.writer.bearer.clone()))
    }
}
