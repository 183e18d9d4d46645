//! What guards the demo's cluster: a CA with a certificate for each node, a data key and tokens, made as `helve init` makes them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use helve_proto::v1::{
    CreateTokenRequest, TokenGrant, TokenRole, access_service_client::AccessServiceClient,
};

use crate::{
    cli::{
        cluster::{ClusterArgs, TlsArgs, request},
        init::secrets::{self, NodeName},
    },
    config::TokenHash,
    limits::TENANT,
    tls::{NamedFile, PortFiles, Trust},
};

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Who holds a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// Who manages the cluster, and sees no records.
    Operator,
    /// The cart servers and the bookkeepers.
    Writer,
    /// Who compares the records with what the clients were told.
    Reader,
}

impl Holder {
    fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Writer => "writer",
            Self::Reader => "reader",
        }
    }
}

/// The directory with all of them.
#[derive(Debug, Clone)]
pub(super) struct Secrets {
    dir: PathBuf,
}

impl Secrets {
    /// Makes them, for so many nodes on loopback.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(super) fn make(dir: &Path, nodes: usize) -> anyhow::Result<Self> {
        let node = |place| NodeName {
            name: node_name(place),
            hosts: vec!["127.0.0.1".to_owned()],
        };
        let secrets = secrets::Secrets {
            dir: dir.to_owned(),
            ca_dir: dir.to_owned(),
            client_dir: dir.to_owned(),
            nodes: (0..nodes).map(node).collect(),
            tokens: [Holder::Writer, Holder::Reader]
                .map(|holder| holder.name().to_owned())
                .into(),
            clients: Vec::new(),
        };
        secrets.make().context("the demo's secrets")?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// Lets the writer and the reader in. The operator's token is let in by every node's own file.
    ///
    /// # Errors
    /// If the cluster refuses, or does not answer.
    pub(super) async fn admit(&self, endpoints: &[String]) -> anyhow::Result<()> {
        let operator = self.cluster(Holder::Operator, endpoints);
        let mut access = AccessServiceClient::new(operator.channel(&endpoints[0])?);
        for (holder, role) in [
            (Holder::Writer, TokenRole::Writer),
            (Holder::Reader, TokenRole::Reader),
        ] {
            let hash = TokenHash::from_file("--token-file", &self.token(holder))?;
            let message = CreateTokenRequest {
                token_hash: hash.bytes().to_vec().into(),
                grant: Some(TokenGrant {
                    tenant: TENANT.to_owned(),
                    role: role.into(),
                    principal: holder.name().to_owned(),
                    ..TokenGrant::default()
                }),
                expires_after_ms: None,
                ..Default::default()
            };
            access
                .create_token(request(message, TIMEOUT))
                .await
                .with_context(|| format!("the {}'s token is not let in", holder.name()))?;
        }
        Ok(())
    }

    /// Where they are.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// How whoever holds a token calls these endpoints.
    pub(super) fn cluster(&self, holder: Holder, endpoints: &[String]) -> ClusterArgs {
        ClusterArgs {
            endpoints: endpoints.to_vec(),
            timeout: TIMEOUT,
            token_file: Some(self.token(holder)),
            tls: TlsArgs::trusting(self.ca().path),
        }
    }

    /// The same as flags of a command.
    pub(super) fn call_flags(&self, holder: Holder, endpoints: &[String]) -> Vec<String> {
        let token = self.token(holder).display().to_string();
        [
            ["--endpoints".to_owned(), endpoints.join(",")],
            ["--tls-ca".to_owned(), self.ca().path.display().to_string()],
            ["--token-file".to_owned(), token],
        ]
        .concat()
    }

    /// What the node at this place needs, as flags of `helve serve`.
    pub(super) fn serve_flags(&self, place: usize) -> [(&'static str, String); 8] {
        let PortFiles {
            certificate, key, ..
        } = self.port(place);
        let file = |path: &Path| path.display().to_string();
        [
            ("--tls-cert", file(&certificate.path)),
            ("--tls-key", file(&key.path)),
            ("--peer-tls-cert", file(&certificate.path)),
            ("--peer-tls-key", file(&key.path)),
            ("--peer-tls-ca", file(&self.ca().path)),
            ("--auth", "tokens".to_owned()),
            ("--operator-token-file", file(&self.token(Holder::Operator))),
            ("--data-key-file", file(&self.dir.join("data.key"))),
        ]
    }

    /// What serves clients as the node at this place does.
    pub(super) fn port(&self, place: usize) -> PortFiles {
        let name = node_name(place);
        PortFiles {
            certificate: self.file("--tls-cert", &format!("{name}.crt")),
            key: self.file("--tls-key", &format!("{name}.key")),
            trust: Trust::Anyone,
        }
    }

    /// Whom callers trust.
    pub(super) fn ca(&self) -> NamedFile {
        self.file("--tls-ca", "ca.crt")
    }

    fn token(&self, holder: Holder) -> PathBuf {
        self.dir.join(format!("{}.token", holder.name()))
    }

    fn file(&self, flag: &'static str, name: &str) -> NamedFile {
        NamedFile {
            flag,
            path: self.dir.join(name),
        }
    }
}

/// What the node at this place of the cluster is called.
pub(super) fn node_name(place: usize) -> String {
    format!("node-{}", place + 1)
}
