//! Tests of files that are read, refused and read again, and of whom a port lets in.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rustls::{HandshakeKind, pki_types::ServerName, server::ServerSessionMemoryCache};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::tls::authority::{Authority, Issued, Life};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A CA and a directory for what it signs.
struct House {
    directory: tempfile::TempDir,
    authority: Authority,
}

impl House {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (authority, ca) = Authority::make("a house's CA", Life::of(YEAR)).unwrap();
        fs::write(directory.path().join("ca.crt"), ca.certificate_pem).unwrap();
        Self {
            directory,
            authority,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, issued: &Issued) {
        fs::write(self.path(&format!("{name}.crt")), &issued.certificate_pem).unwrap();
        let key = self.path(&format!("{name}.key"));
        fs::write(&key, issued.key_pem.as_bytes()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn node(&self, name: &str) {
        let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let issued = self.authority.node(name, &hosts, Life::of(YEAR));
        self.put(name, &issued.unwrap());
    }

    fn server(&self, name: &str) {
        let hosts = ["localhost".to_owned()];
        let issued = self.authority.server(name, &hosts, Life::of(YEAR));
        self.put(name, &issued.unwrap());
    }

    fn client(&self, name: &str) {
        self.put(name, &self.authority.client(name, Life::of(YEAR)).unwrap());
    }

    fn port(&self, name: &str) -> PortFiles {
        let file = |flag, path| NamedFile { flag, path };
        PortFiles {
            certificate: file("--peer-tls-cert", self.path(&format!("{name}.crt"))),
            key: file("--peer-tls-key", self.path(&format!("{name}.key"))),
            trust: Trust::Nodes(file("--peer-tls-ca", self.path("ca.crt"))),
        }
    }
}

fn problem(files: PortFiles) -> (&'static str, String) {
    let error = PortTls::read(files).expect_err("files that are no good");
    (error.flag, error.to_string())
}

#[test]
fn files_that_are_no_good_are_refused_by_the_flag_that_named_them() {
    let house = House::new();
    house.node("a");
    house.node("b");
    let (cert, key, ca) = ("--peer-tls-cert", "--peer-tls-key", "--peer-tls-ca");
    let good = house.port("a");
    assert!(PortTls::read(good.clone()).is_ok());
    let refused = |files: PortFiles, flag: &str, said: &str| {
        let (named, message) = problem(files);
        assert_eq!(named, flag, "{message}");
        assert!(message.contains(said), "`{message}` does not say `{said}`");
    };
    refused(house.port("absent"), cert, "No such file");
    let mut mixed = good.clone();
    mixed.key.path = house.path("b.key");
    refused(mixed, key, "is not the key of");
    let mut swapped = good.clone();
    std::mem::swap(&mut swapped.key.path, &mut swapped.certificate.path);
    refused(swapped, cert, "no certificate");
    fs::write(house.path("empty"), "").unwrap();
    let mut without = good.clone();
    without.trust = Trust::Nodes(NamedFile {
        flag: ca,
        path: house.path("empty"),
    });
    refused(without, ca, "no certificate");
    house.node("c");
    for (name, flag) in [("c.key", key), ("c.crt", cert)] {
        let pem = fs::read_to_string(house.path(name)).unwrap();
        fs::write(house.path(name), pem.replace('\n', "\\n")).unwrap();
        refused(house.port("c"), flag, r"its line ends are written as `\n`");
    }
    // The parser repeats such a line, here of a key.
    let open = b"-----BEGIN PRIVATE KEY-----MIGH\n";
    fs::write(house.path("c.crt"), open).unwrap();
    refused(
        house.port("c"),
        cert,
        "the first line of a block in it is malformed;",
    );
    fs::set_permissions(house.path("b.key"), fs::Permissions::from_mode(0o604)).unwrap();
    refused(house.port("b"), key, "mode 604");
    let past = Life {
        not_before_ms: 1_000_000_000_000,
        not_after_ms: 1_100_000_000_000,
    };
    house.put("old", &house.authority.node("old", &[], past).unwrap());
    refused(house.port("old"), cert, "has expired");
    let future = Life {
        not_before_ms: 32_000_000_000_000,
        not_after_ms: 33_000_000_000_000,
    };
    house.put("new", &house.authority.node("new", &[], future).unwrap());
    refused(house.port("new"), cert, "not valid yet");
}

#[test]
fn certificates_that_the_other_end_would_refuse_are_refused() {
    let house = House::new();
    house.client("client");
    house.server("server");
    let (_, ca) = Authority::make("itself", Life::of(YEAR)).unwrap();
    house.put("itself", &ca);
    let clients = |name| PortFiles {
        trust: Trust::Anyone,
        ..house.port(name)
    };
    for (files, said) in [
        (clients("client"), "lacks serverAuth"),
        (house.port("client"), "lacks serverAuth"),
        (house.port("server"), "lacks clientAuth"),
        (clients("itself"), "CA:FALSE"),
        (house.port("itself"), "CA:FALSE"),
    ] {
        let (flag, message) = problem(files);
        assert_eq!(flag, "--peer-tls-cert");
        assert!(message.contains(said), "`{message}` does not say `{said}`");
    }
    assert!(PortTls::read(clients("server")).is_ok());
    let file = |flag, name: &str| NamedFile {
        flag,
        path: house.path(name),
    };
    let shown = |name: &str| {
        let certificate = file("--tls-client-cert", &format!("{name}.crt"));
        let key = file("--tls-client-key", &format!("{name}.key"));
        calling(None, Some((&certificate, &key))).map_err(|error| error.to_string())
    };
    assert!(shown("client").is_ok());
    let refused = shown("server").unwrap_err();
    assert!(refused.starts_with("--tls-client-cert: "), "{refused}");
    assert!(refused.contains("lacks clientAuth"), "{refused}");
}

#[test]
fn file_that_is_no_certificate_is_refused_in_plain_words() {
    let house = House::new();
    house.node("a");
    fs::write(
        house.path("a.crt"),
        "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let (flag, message) = problem(house.port("a"));
    assert_eq!(flag, "--peer-tls-cert");
    assert!(message.contains("it is malformed"), "{message}");
}

#[test]
fn new_files_are_taken_up_and_broken_ones_leave_the_old_in_use() {
    let house = House::new();
    house.node("a");
    let port = PortTls::read(house.port("a")).unwrap();
    let first = port.server();
    assert_eq!(port.reload().unwrap(), Reload::Unchanged);
    house.node("a");
    assert_eq!(port.reload().unwrap(), Reload::Changed);
    let second = port.server();
    assert!(!Arc::ptr_eq(&first, &second), "the old files are in use");
    fs::write(house.path("a.crt"), "half a file").unwrap();
    assert!(port.reload().is_err());
    assert_eq!(port.reload().unwrap(), Reload::Unchanged, "said once");
    assert!(Arc::ptr_eq(&second, &port.server()));
    house.node("a");
    assert_eq!(port.reload().unwrap(), Reload::Changed);
}

/// Whether a node with this certificate comes in at the port, which is called by this name.
async fn comes_in(port: &PortTls, dial: Arc<ClientConfig>, name: &str) -> Result<(), String> {
    let (near, far) = duplex(1 << 14);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let accepting = TlsAcceptor::from(port.server()).accept(far);
    let connecting = TlsConnector::from(dial).connect(name, near);
    let (accepted, connected) = tokio::join!(accepting, connecting);
    connected.map_err(|error| error.to_string())?;
    accepted.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_peer_is_let_in_by_a_nodes_certificate_of_the_same_ca_alone() {
    let (house, strange) = (House::new(), House::new());
    house.node("a");
    house.node("b");
    strange.node("c");
    let port = PortTls::read(house.port("a")).unwrap();
    let dial = |house: &House, name| PortTls::read(house.port(name)).unwrap().dial().unwrap();
    let own = dial(&house, "b");
    assert_eq!(comes_in(&port, Arc::clone(&own), "localhost").await, Ok(()));
    let elsewhere = comes_in(&port, own, "elsewhere").await.unwrap_err();
    assert!(elsewhere.contains("elsewhere"), "{elsewhere}");
    let other_ca = comes_in(&port, dial(&strange, "c"), "localhost").await;
    // Both CAs have the same name, so that only the signature tells them apart.
    let other_ca = other_ca.unwrap_err();
    assert!(other_ca.contains("invalid peer certificate"), "{other_ca}");
    // Of the same CA, but a client's: it knows the node, which does not take it for one.
    house.client("caller");
    let file = |flag, name: &str| NamedFile {
        flag,
        path: house.path(name),
    };
    let (ca, certificate) = (
        file("--tls-ca", "ca.crt"),
        file("--tls-client-cert", "caller.crt"),
    );
    let key = file("--tls-client-key", "caller.key");
    let caller = calling(Some(&ca), Some((&certificate, &key))).unwrap();
    let refused = comes_in(&port, caller, "localhost").await.unwrap_err();
    assert!(refused.contains("NoNode"), "{refused}");
}

#[tokio::test]
async fn a_node_connects_to_no_server_of_its_ca_that_is_no_node() {
    let house = House::new();
    house.node("a");
    house.server("shop");
    let shop = PortTls::read(PortFiles {
        trust: Trust::Anyone,
        ..house.port("shop")
    });
    let shop = shop.unwrap();
    let dial = PortTls::read(house.port("a")).unwrap().dial().unwrap();
    let refused = comes_in(&shop, dial, "localhost").await.unwrap_err();
    assert!(refused.contains("NoNode"), "{refused}");
}

/// How the second of two connections between the same two began.
async fn second(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> Option<HandshakeKind> {
    let mut kind = None;
    for _ in 0..2 {
        let (near, far) = duplex(1 << 14);
        let accepting = TlsAcceptor::from(Arc::clone(server)).accept(far);
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::clone(client)).connect(name, near);
        let (mut accepted, mut connected) = tokio::try_join!(accepting, connecting).unwrap();
        // What a session is resumed by comes behind the handshake.
        accepted.write_u8(7).await.unwrap();
        accepted.flush().await.unwrap();
        assert_eq!(connected.read_u8().await.unwrap(), 7);
        kind = connected.get_ref().1.handshake_kind();
    }
    kind
}

/// The same server, if it resumed sessions.
fn lax(server: &ServerConfig) -> Arc<ServerConfig> {
    let mut lax = server.clone();
    lax.session_storage = ServerSessionMemoryCache::new(8);
    lax.send_tls13_tickets = 1;
    Arc::new(lax)
}

#[tokio::test]
async fn no_session_is_resumed_if_only_the_other_end_would() {
    let house = House::new();
    house.node("a");
    let port = PortTls::read(house.port("a")).unwrap();
    let dial = port.dial().unwrap();
    let mut keen = ClientConfig::clone(&dial);
    keen.resumption = Resumption::in_memory_sessions(8);
    let Trust::Nodes(ca) = house.port("a").trust else {
        panic!("no port for nodes")
    };
    let old = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_root_certificates(roots(&ca).unwrap())
        .with_no_client_auth();
    for (server, keen) in [(port.server(), keen), (port.http(), old)] {
        let keen = Arc::new(keen);
        assert_eq!(second(&server, &keen).await, Some(HandshakeKind::Full));
        // So that it is the server which had refused.
        let resumed = second(&lax(&server), &keen).await;
        assert_eq!(resumed, Some(HandshakeKind::Resumed));
    }
    let dialled = second(&lax(&port.server()), &dial).await;
    assert_eq!(dialled, Some(HandshakeKind::Full));
}

#[test]
fn a_certificate_shows_whose_it_is() {
    let house = House::new();
    house.node("a");
    let certificate = |path: &Path| {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        Certificate::parse(&CertificateDer::from_pem_file(path).unwrap()).unwrap()
    };
    let node = certificate(&house.path("a.crt"));
    assert_eq!((node.common_name.as_str(), node.is_node()), ("a", true));
    house.client("alice");
    let client = certificate(&house.path("alice.crt"));
    assert_eq!(
        (client.common_name.as_str(), client.is_node()),
        ("alice", false)
    );
}
