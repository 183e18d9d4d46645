//! Tests of diagnoses against ports that say anything, or nothing.

use std::{fs, path::PathBuf, sync::Arc};

use helve_command::cluster::TlsArgs;
use helve_node::tls::authority::{Authority, Life};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::*;

/// The flags of a command that calls this endpoint.
pub(crate) fn flags(endpoint: &str) -> ClusterArgs {
    ClusterArgs {
        endpoints: vec![endpoint.to_owned()],
        timeout: Duration::from_secs(20),
        token_file: None,
        insecure_token: false,
        tls: TlsArgs::default(),
    }
}

/// What a port does once it has said its words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Holds,
    Closes,
}

/// A port that says this to every caller.
pub(crate) async fn port(says: &'static [u8], then: Then) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = [0; 64];
            let _bytes = stream.read(&mut heard).await;
            let _said = stream.write_all(says).await;
            if then == Then::Holds {
                held.push(stream);
            }
        }
    });
    address
}

async fn cause(endpoint: &str) -> Option<Cause> {
    cause_within(Duration::from_secs(20), endpoint).await
}

async fn cause_within(timeout: Duration, endpoint: &str) -> Option<Cause> {
    let flags = ClusterArgs {
        timeout,
        ..flags(endpoint)
    };
    let found = find(&flags, endpoint).await;
    found.err().map(|finding| {
        assert!(finding.line().contains(endpoint), "{}", finding.line());
        finding.cause
    })
}

#[tokio::test]
async fn ports_that_are_no_node_are_told_apart() {
    let table: [(&[u8], Then, Cause); 7] = [
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", Then::Holds, Cause::NotHelve),
        (b"-ERR unknown command\r\n", Then::Holds, Cause::NotHelve),
        (b"", Then::Closes, Cause::Closed),
        (
            b"\x15\x03\x03\0\x02\x02\x32",
            Then::Holds,
            Cause::TlsExpected,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nalive\n",
            Then::Closes,
            Cause::HttpPort,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n",
            Then::Closes,
            Cause::McpPort,
        ),
        (
            b"HTTP/1.0 400 Bad Request\r\n\r\n",
            Then::Closes,
            Cause::NotHelve,
        ),
    ];
    for (says, then, expected) in table {
        let endpoint = port(says, then).await;
        let found = cause(&endpoint).await;
        assert_eq!(found, Some(expected), "{:?}", String::from_utf8_lossy(says));
    }
}

#[tokio::test]
async fn probe_takes_no_other_server_for_one_that_is_well() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = closed.local_addr().unwrap().to_string();
    drop(closed);
    let page = |page| port(page, Then::Closes);
    let table = [
        (page(b"HTTP/1.1 200 OK\r\n\r\nready\n").await, None),
        (
            page(b"HTTP/1.1 200 OK\r\n\r\n<html>It works</html>").await,
            Some((Cause::NotHelve, "--http-listen")),
        ),
        (
            page(b"HTTP/1.1 404 Not Found\r\n\r\n").await,
            Some((Cause::NotHelve, "404")),
        ),
        (
            page(b"HTTP/1.1 503 No\r\n\r\nnot ready: it is stopping\n").await,
            Some((Cause::NotReady, "it is stopping")),
        ),
        (
            page(b"SSH-2.0-OpenSSH_9.2p1\r\n").await,
            Some((Cause::NotHelve, "HTTP/1.1")),
        ),
        (
            format!("https://{refused}"),
            Some((Cause::TlsFile, "--tls-ca")),
        ),
        (refused, Some((Cause::NothingListens, "`helve dev`"))),
        ("127.0.0.1".to_owned(), Some((Cause::BadEndpoint, "--http"))),
    ];
    for (http, expected) in table {
        let caused = probe(&flags(&http), &http, Probe::Readiness).await.err();
        let found = caused.as_ref().map(|caused| caused.cause);
        assert_eq!(found, expected.map(|(cause, _)| cause), "{http}");
        if let (Some(caused), Some((_, word))) = (caused, expected) {
            let said = caused.message;
            assert!(said.contains(word) && said.contains(&http), "{said}");
        }
    }
}

#[tokio::test]
async fn refused_token_names_the_endpoint_that_refused_it() {
    let silent = port(b"", Then::Holds).await;
    let refused = || {
        let cause = Cause::Told(Reason::Unauthenticated);
        Ending::Refused(Caused::new(cause, "no such token").into())
    };
    let ending = explain(&flags(&silent), refused()).await;
    assert_eq!(ending.error().to_string(), "no such token", "{ending:?}");
}

#[tokio::test]
async fn port_that_says_nothing_is_waited_for_within_the_limit() {
    for says in [&b""[..], b"\0\0\0"] {
        let endpoint = port(says, Then::Holds).await;
        let found = cause_within(LIMIT_MIN, &endpoint).await;
        assert_eq!(found, Some(Cause::Silent));
    }
}

#[tokio::test]
async fn ports_that_cannot_be_reached_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert_eq!(cause(&endpoint).await, Some(Cause::NothingListens));
    assert_eq!(cause("name.invalid:7400").await, Some(Cause::UnknownHost));
    assert_eq!(cause("127.0.0.1").await, Some(Cause::BadEndpoint));
    assert_eq!(cause("127.0.0.1:port").await, Some(Cause::BadEndpoint));
}

#[tokio::test]
async fn worst_of_several_endpoints_is_told_unless_one_answers() {
    let silent = port(b"SSH-2.0-x\r\n", Then::Holds).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut findings = Vec::new();
    for endpoint in [&refused, &silent, &refused] {
        findings.push(find(&flags(endpoint), endpoint).await);
    }
    let told = worst(findings.clone()).unwrap();
    assert_eq!((told.cause, told.endpoint), (Cause::NotHelve, silent));
    let told = worst(vec![findings[0].clone(), findings[2].clone()]).unwrap();
    assert_eq!(told.cause, Cause::NothingListens);
    assert!(told.message.contains("1 more endpoint"), "{}", told.message);
    findings.push(Ok(()));
    assert!(
        worst(findings).is_none(),
        "a node that answers is not at fault"
    );
}

#[tokio::test]
async fn write_that_may_have_been_done_stays_in_doubt() {
    let unsure = || Ending::Unknown(Caused::new(Cause::NoAnswer, "the call was sent").into());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = listener.local_addr().unwrap().to_string();
    drop(listener);
    let ending = explain(&flags(&gone), unsure()).await;
    assert!(matches!(ending, Ending::Unknown(_)), "{ending:?}");
    let said = ending.error().to_string();
    assert!(
        said.contains("the call was sent") && said.contains(&gone),
        "{said}"
    );
    // A forwarded port whose node is down, and one that a proxy took over.
    let closes = port(b"", Then::Closes).await;
    let web = port(b"HTTP/1.0 400 Bad Request\r\n\r\n", Then::Closes).await;
    for (endpoint, cause) in [(closes, Cause::Closed), (web, Cause::NotHelve)] {
        let ending = explain(&flags(&endpoint), unsure()).await;
        assert_eq!(ending.status(), 5, "{ending:?}");
        assert_eq!(ending.caused().unwrap().cause, cause, "{ending:?}");
    }
    // No node was ever there.
    let probes = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nalive\n";
    let probes = port(probes, Then::Closes).await;
    let ending = explain(&flags(&probes), unsure()).await;
    assert!(matches!(ending, Ending::Refused(_)), "{ending:?}");
    // Of several endpoints, one that may have taken the call is enough.
    let both = ClusterArgs {
        endpoints: vec![probes, gone],
        ..flags("")
    };
    let ending = explain(&both, unsure()).await;
    assert_eq!(ending.status(), 5, "{ending:?}");
}

#[test]
fn problem_that_an_ending_names_already_is_said_once() {
    let caused = Caused::new(Cause::ProxyFails, "a:1 answered HTTP 504: read its log");
    let said = "the call was sent: a:1 answered HTTP 504. Look";
    let ending = in_doubt(said, caused.clone()).error().to_string();
    assert_eq!(ending, format!("{said}; read its log"));
    let ending = in_doubt("the call was sent", caused).error().to_string();
    assert!(ending.contains("HTTP 504: read its log"), "{ending}");
}

/// A CA whose certificate is in a file.
struct Ca {
    authority: Authority,
    file: PathBuf,
}

const LIFE: Duration = Duration::from_secs(3_600);

impl Ca {
    fn make(directory: &tempfile::TempDir, name: &str) -> Self {
        let (authority, issued) = Authority::make(name, Life::of(LIFE)).unwrap();
        let file = directory.path().join(name);
        fs::write(&file, issued.certificate_pem).unwrap();
        Self { authority, file }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(&self.file).unwrap())
            .unwrap();
        Arc::new(roots)
    }

    /// A TLS port that begins to speak HTTP/2. `of_clients`: it wants a certificate of this CA.
    async fn port(&self, host: &str, life: Life, of_clients: Option<&Self>) -> String {
        let issued = self
            .authority
            .node("node", &[host.to_owned()], life)
            .unwrap();
        let chain = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match of_clients {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(ca.roots(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(vec![chain], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        let _said = stream.write_all(b"SSH-2.0-over-TLS\r\n").await;
                        let _bytes = stream.read(&mut [0; 1_024]).await;
                    }
                });
            }
        });
        address
    }
}

/// What is found at an endpoint by who trusts this CA.
async fn cause_trusting(endpoint: &str, ca: &Ca) -> (Cause, String) {
    let flags = ClusterArgs {
        tls: TlsArgs::trusting(ca.file.clone()),
        ..flags(endpoint)
    };
    let finding = find(&flags, endpoint).await.unwrap_err();
    (finding.cause, finding.line())
}

#[tokio::test]
async fn refused_certificates_are_told_apart_and_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let (ca, other) = (Ca::make(&directory, "one"), Ca::make(&directory, "other"));
    let past = Life {
        not_before_ms: 1_000,
        not_after_ms: 2_000,
    };
    let now = Life::of(LIFE);
    let future = Life {
        not_before_ms: now.not_after_ms,
        not_after_ms: now.not_after_ms * 2,
    };
    let host = "127.0.0.1";
    let table = [
        (
            ca.port(host, past, None).await,
            Cause::CertificateExpired,
            "expired",
        ),
        (
            ca.port(host, future, None).await,
            Cause::CertificateNotYetValid,
            "clocks",
        ),
        (
            ca.port("node-1.internal", now, None).await,
            Cause::CertificateName,
            "but for node-1.internal",
        ),
        (
            other.port(host, now, None).await,
            Cause::CertificateUnknownCa,
            "--tls-ca",
        ),
        (
            ca.port(host, now, Some(&ca)).await,
            Cause::ClientCertificateMissing,
            "--tls-client-cert",
        ),
        // A certificate that is good, and no node behind it.
        (ca.port(host, now, None).await, Cause::NotHelve, "SSH"),
    ];
    for (endpoint, expected, word) in table {
        let (cause, line) = cause_trusting(&endpoint, &ca).await;
        assert_eq!(cause, expected, "{line}");
        assert!(line.contains(word) && line.contains(&endpoint), "{line}");
    }
}

#[tokio::test]
async fn client_certificate_of_another_ca_is_refused_and_said_so() {
    let directory = tempfile::tempdir().unwrap();
    let (ca, other) = (Ca::make(&directory, "one"), Ca::make(&directory, "other"));
    let issued = other.authority.client("shop", Life::of(LIFE)).unwrap();
    let (cert, key) = (directory.path().join("crt"), directory.path().join("key"));
    fs::write(&cert, &issued.certificate_pem).unwrap();
    fs::write(&key, issued.key_pem.as_bytes()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key, private).unwrap();
    let endpoint = ca.port("127.0.0.1", Life::of(LIFE), Some(&ca)).await;
    let flags = ClusterArgs {
        tls: TlsArgs::trusting(ca.file.clone()).showing(cert, key),
        ..flags(&endpoint)
    };
    let finding = find(&flags, &endpoint).await.unwrap_err();
    assert_eq!(
        finding.cause,
        Cause::ClientCertificateRefused,
        "{}",
        finding.line()
    );
    let said = finding.line();
    assert!(said.contains("it does not trust the CA"), "{said}");
}
