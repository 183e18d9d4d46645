//! What guards the demo's cluster: a CA with a certificate for each node, a data key and tokens, made by `helve init`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use helve_command::cluster::{ClusterArgs, TlsArgs, request};
use helve_node::{
    config::TokenHash,
    limits::TENANT,
    tls::{NamedFile, PortFiles, Trust},
};
use helve_proto::v1::{
    CreateTokenRequest, TokenGrant, TokenRole, access_service_client::AccessServiceClient,
};

use super::processes;

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
    /// Makes them, for this many nodes on loopback.
    ///
    /// # Errors
    /// If `helve init` fails.
    pub(super) async fn make(dir: &Path, nodes: usize) -> anyhow::Result<Self> {
        let nodes: Vec<_> = (0..nodes)
            .map(|place| format!("{}=127.0.0.1", node_name(place)))
            .collect();
        let tokens = [Holder::Writer, Holder::Reader].map(Holder::name);
        let arguments = [
            "init".to_owned(),
            format!("--dir={}", dir.display()),
            format!("--node={}", nodes.join(";")),
            format!("--token={}", tokens.join(",")),
        ];
        let made = processes::run(&arguments).await;
        made.context("the demo's secrets cannot be made")?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// Makes what a proxy in front of one node needs, without a binary to run.
    ///
    /// # Errors
    /// If the directory cannot be written.
    #[cfg(test)]
    pub(super) fn of_one_node(dir: &Path) -> anyhow::Result<Self> {
        use helve_node::tls::authority::{Authority, Life};
        use std::{fs::File, io::Write as _, os::unix::fs::OpenOptionsExt as _};

        let life = Life::of(Duration::from_secs(3_600));
        let (authority, ca) = Authority::make("the CA of a test", life)?;
        let node = authority.node(&node_name(0), &["127.0.0.1".to_owned()], life)?;
        for (file, pem) in [
            ("ca.crt", ca.certificate_pem.as_str()),
            ("node-1.crt", node.certificate_pem.as_str()),
            ("node-1.key", node.key_pem.as_str()),
        ] {
            let mut options = File::options();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(dir.join(file))?;
            file.write_all(pem.as_bytes())?;
        }
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
                .with_context(|| format!("the {}'s token is not accepted", holder.name()))?;
        }
        Ok(())
    }

    /// Where they are.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// How the holder of a token calls these endpoints.
    pub(super) fn cluster(&self, holder: Holder, endpoints: &[String]) -> ClusterArgs {
        ClusterArgs {
            endpoints: endpoints.to_vec(),
            timeout: TIMEOUT,
            token_file: Some(self.token(holder)),
            insecure_token: false,
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
