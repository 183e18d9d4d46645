//! Tests of which listeners need TLS, and of the flags that give it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use super::*;
use crate::tls::authority::{Authority, Issued, Life};

const CERT: &str = "--tls-cert";
const KEY: &str = "--tls-key";
const CLIENT_CA: &str = "--tls-client-ca";
const PEER_CERT: &str = "--peer-tls-cert";
const PEER_KEY: &str = "--peer-tls-key";
const PEER_CA: &str = "--peer-tls-ca";

/// A CA, a node's certificate, a client's, and one that has expired.
fn house(directory: &Path) -> impl Fn(&str) -> String {
    let life = Life::of(Duration::from_secs(3_600));
    let (authority, ca) = Authority::make("ca", life).unwrap();
    let past = Life {
        not_before_ms: 1_000_000_000_000,
        not_after_ms: 1_100_000_000_000,
    };
    let put = |name: &str, issued: &Issued| {
        fs::write(
            directory.join(format!("{name}.crt")),
            &issued.certificate_pem,
        )
        .unwrap();
        let key = directory.join(format!("{name}.key"));
        fs::write(&key, issued.key_pem.as_bytes()).unwrap();
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    };
    put("ca", &ca);
    put("node", &authority.node("node", &[], life).unwrap());
    put("client", &authority.client("client", life).unwrap());
    put("plain", &of_no_node());
    put("old", &authority.node("old", &[], past).unwrap());
    let key = directory.join("open.key");
    fs::copy(directory.join("node.key"), &key).unwrap();
    fs::set_permissions(key, fs::Permissions::from_mode(0o644)).unwrap();
    let directory = directory.to_owned();
    move |name| directory.join(name).display().to_string()
}

/// A certificate for every use that signs itself, without the name by which nodes are known.
fn of_no_node() -> Issued {
    let names = vec!["localhost".to_owned()];
    let params = rcgen::CertificateParams::new(names).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    Issued {
        certificate_pem: params.self_signed(&key).unwrap().pem(),
        key_pem: key.serialize_pem().into(),
    }
}

#[test]
fn half_given_or_unfit_certificates_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = house(directory.path());
    let (cert, key, ca) = (at("node.crt"), at("node.key"), at("ca.crt"));
    let (old, old_key, open, none) = (at("old.crt"), at("old.key"), at("open.key"), at("none"));
    let (client, client_key) = (at("client.crt"), at("client.key"));
    let (plain, plain_key) = (at("plain.crt"), at("plain.key"));
    let (cert, key, ca) = (cert.as_str(), key.as_str(), ca.as_str());
    let peer_ca = (PEER_CA, ca);
    refused(&[
        (&[(CERT, cert)], KEY, "--tls-cert is given without it"),
        (&[(KEY, key)], CERT, "--tls-key is given without it"),
        (&[(CLIENT_CA, ca)], CLIENT_CA, "over TLS alone"),
        (&[(PEER_CERT, cert), peer_ca], PEER_KEY, "without it"),
        (&[(PEER_CERT, cert), (PEER_KEY, key)], PEER_CA, "without it"),
        (&[peer_ca], PEER_CERT, "--peer-tls-ca is given without it"),
        (&[(CERT, cert), (KEY, &none)], KEY, "No such file"),
        (&[(CERT, key), (KEY, key)], CERT, "no certificate"),
        (&[(CERT, cert), (KEY, &old_key)], KEY, "is not the key of"),
        (
            &[(CERT, cert), (KEY, &open)],
            KEY,
            "other users of this machine may read or write it (mode 644): chmod 600",
        ),
        (&[(CERT, &old), (KEY, &old_key)], CERT, "has expired"),
        (
            &[(CERT, cert), (KEY, key), (CLIENT_CA, key)],
            CLIENT_CA,
            "no certificate",
        ),
        (
            &[(PEER_CERT, &client), (PEER_KEY, &client_key), peer_ca],
            PEER_CERT,
            "lacks serverAuth",
        ),
        (
            &[(CERT, &client), (KEY, &client_key)],
            CERT,
            "lacks serverAuth",
        ),
        (
            &[(PEER_CERT, &plain), (PEER_KEY, &plain_key), peer_ca],
            PEER_CERT,
            "no node's certificate",
        ),
    ]);
}

#[test]
fn a_listener_beyond_loopback_needs_tls_of_its_own_kind_and_tokens_or_the_operators_word() {
    let directory = tempfile::tempdir().unwrap();
    let at = house(directory.path());
    let (cert, key, ca) = (at("node.crt"), at("node.key"), at("ca.crt"));
    let client = [(CERT, cert.as_str()), (KEY, &key)];
    let peer = [(PEER_CERT, cert.as_str()), (PEER_KEY, &key), (PEER_CA, &ca)];
    let beyond = "beyond this machine";
    let listen = ("--listen", "192.0.2.1:7400");
    let tokens = ("--auth", "tokens");
    let local = ("--insecure-peers", "");
    let clients_beyond = [listen, client[0], client[1], tokens, local];
    let peers_beyond = ("--peer-listen", "192.0.2.1:7401");
    let peer_only = [peers_beyond, client[0], client[1]];
    let http_only = [
        ("--http-listen", "192.0.2.1:7402"),
        peer[0],
        peer[1],
        peer[2],
    ];
    refused(&[
        (&[listen, tokens], "--listen", "without TLS"),
        (&clients_beyond[..4], "--auth", "peer port"),
        (&[peers_beyond, tokens, local], "--peer-listen", beyond),
        (&clients_beyond[..3], "--listen", "without tokens"),
        (&peer_only, "--peer-listen", beyond),
        (&http_only, "--http-listen", beyond),
    ]);
    let config = Config::check(&said(&clients_beyond)).unwrap();
    assert!(config.exposed.is_empty() && config.tls.client.is_some());
    assert!(Config::check(&said(&[peers_beyond, peer[0], peer[1], peer[2]])).is_ok());
    let vouched = [
        listen,
        peers_beyond,
        client[0],
        client[1],
        ("--insecure", ""),
    ];
    let config = Config::check(&said(&vouched)).unwrap();
    assert_eq!(
        config.exposed,
        ["--peer-listen", "--auth none"],
        "to be logged_at of in the log"
    );
}
