//! Certificates, keys and listeners that a node does not start with.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::Result;
use helve_node::tls::authority::{Authority, Issued, Life};
use helve_tests::certificates::{Certificates, LIFE};

use super::Arguments;

const CLIENT: [&str; 2] = ["--tls-cert", "--tls-key"];
const PEER: [&str; 3] = ["--peer-tls-cert", "--peer-tls-key", "--peer-tls-ca"];

const PAST: Life = Life {
    not_before_ms: 1_000_000_000_000,
    not_after_ms: 1_100_000_000_000,
};

const FUTURE: Life = Life {
    not_before_ms: 4_000_000_000_000,
    not_after_ms: 4_100_000_000_000,
};

/// A CA, what it has signed, and one that has signed itself.
struct Files {
    made: Certificates,
    _directory: tempfile::TempDir,
}

impl Files {
    fn make() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let made = Certificates::make(directory.path().join("certs"))?;
        let host = "127.0.0.1";
        for (name, life) in [
            ("node", Life::of(LIFE)),
            ("other", Life::of(LIFE)),
            ("expired", PAST),
            ("early", FUTURE),
        ] {
            made.node(name, host, life)?;
        }
        drop(made.client("client", Life::of(LIFE))?);
        let (_, itself) = Authority::make("itself", Life::of(LIFE))?;
        put(&made.path("itself.crt"), &made.path("itself.key"), &itself)?;
        fs::copy(made.path("node.key"), made.path("open.key"))?;
        fs::set_permissions(made.path("open.key"), fs::Permissions::from_mode(0o644))?;
        Ok(Self {
            made,
            _directory: directory,
        })
    }

    /// A node's arguments with these files under these flags, some of which are left out.
    fn given<const N: usize>(
        &self,
        flags: [&'static str; N],
        names: [&str; N],
    ) -> Result<Arguments> {
        let given = flags
            .into_iter()
            .zip(names)
            .filter(|(_, name)| !name.is_empty());
        Ok(given.fold(Arguments::good()?, |arguments, (flag, name)| {
            arguments.with(flag, text(&self.made.path(name)))
        }))
    }
}

fn put(certificate: &Path, key: &Path, issued: &Issued) -> Result<()> {
    fs::write(certificate, &issued.certificate_pem)?;
    fs::write(key, &*issued.key_pem)?;
    Ok(fs::set_permissions(key, fs::Permissions::from_mode(0o600))?)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test]
async fn flags_of_tls_that_are_given_by_half_are_refused() -> Result<()> {
    let files = Files::make()?;
    for (names, missing) in [(["node.crt", ""], CLIENT[1]), (["", "node.key"], CLIENT[0])] {
        files.given(CLIENT, names)?.assert_refused(missing).await?;
    }
    for (names, missing) in [
        (["node.crt", "", ""], PEER[1]),
        (["", "node.key", "ca.crt"], PEER[0]),
        (["node.crt", "node.key", ""], PEER[2]),
    ] {
        files.given(PEER, names)?.assert_refused(missing).await?;
    }
    let alone = files.given(["--tls-client-ca"], ["ca.crt"])?;
    alone.assert_refused("--tls-cert and --tls-key").await
}

#[tokio::test]
async fn certificates_and_keys_that_cannot_be_used_are_refused_at_either_port() -> Result<()> {
    let files = Files::make()?;
    for (certificate, key, said) in [
        ("absent.crt", "node.key", "tls-cert"),
        ("node.key", "node.key", "tls-cert"),
        ("node.crt", "ca.crt", "tls-key"),
        ("node.crt", "other.key", "tls-key"),
        ("node.crt", "open.key", "chmod 600"),
        ("expired.crt", "expired.key", "it has expired"),
        ("early.crt", "early.key", "it is not valid yet"),
    ] {
        let client = files.given(CLIENT, [certificate, key])?;
        client.assert_refused(said).await?;
        let peer = files.given(PEER, [certificate, key, "ca.crt"])?;
        peer.assert_refused(said).await?;
    }
    for (name, said) in [("client", "lacks serverAuth"), ("itself", "CA:FALSE")] {
        let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
        let client = files.given(CLIENT, [&certificate, &key])?;
        client.assert_refused(said).await?;
        let peer = files.given(PEER, [&certificate, &key, "ca.crt"])?;
        peer.assert_refused(said).await?;
    }
    let no_ca = files.given(PEER, ["node.crt", "node.key", "node.key"])?;
    no_ca.assert_refused(PEER[2]).await
}

#[tokio::test]
async fn beyond_loopback_the_client_port_needs_tls_and_tokens_and_the_peer_port_tls() -> Result<()>
{
    let files = Files::make()?;
    let client = || files.given(CLIENT, ["node.crt", "node.key"]);
    let peer = || files.given(PEER, ["node.crt", "node.key", "ca.crt"]);
    for (arguments, flag, remedy) in [
        (client()?, "--listen", "--auth tokens"),
        (client()?, "--peer-listen", "--peer-tls-cert"),
        (peer()?, "--listen", "--tls-cert"),
        (peer()?, "--http-listen", "--tls-cert"),
    ] {
        let advertised = arguments.with("--advertise", "node-1:7499");
        let exposed = advertised.with(flag, "0.0.0.0:7499");
        exposed.assert_refused(remedy).await?;
    }
    let tokens = Arguments::good()?.with("--auth", "tokens");
    let advertised = tokens.with("--advertise", "node-1:7499");
    let exposed = advertised.with("--listen", "0.0.0.0:7499");
    exposed.assert_refused("--tls-cert").await
}
