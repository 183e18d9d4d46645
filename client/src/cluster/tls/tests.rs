//! What is trusted and shown, and when it is read again.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use super::*;

#[test]
fn what_is_no_ca_and_what_is_no_key_are_refused_before_any_connection() {
    let endpoint = || Endpoint::from_static("https://127.0.0.1:7400");
    for ca in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA"] {
        let refused = Tls::new(ca).secure(endpoint()).unwrap_err();
        assert_eq!(refused.reason(), Some(Reason::BadRequest), "{ca}");
        assert!(Tls::new(ca).check().is_err(), "{ca}");
    }
    let (ca, _) = authority();
    let mismatched = Tls::new(&ca).identity(&ca, authority().1);
    assert!(mismatched.check().is_err());
}

#[test]
fn pem_without_line_ends_is_told_and_not_repeated() {
    let (ca, key) = authority();
    let escaped = |pem: &str| pem.replace('\n', "\\n");
    let (escaped_ca, escaped_key) = (escaped(&ca), escaped(&key));
    let one_line = key.replace('\n', "");
    let table = [
        (
            Tls::new(&escaped_ca),
            "the CA holds no certificate: its line ends",
        ),
        (
            Tls::new(&ca).identity(&escaped_ca, &key),
            "certificate: its line ends are written",
        ),
        (
            Tls::new(&ca).identity(&ca, &escaped_key),
            "key: its line ends are written",
        ),
        (
            Tls::new(&ca).identity(&ca, &one_line),
            "key: its line ends are missing",
        ),
    ];
    for (tls, part) in table {
        let error = tls.check().unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(said.contains(part), "{said}");
        // The beginning of a key on P-256, and its bytes as numbers.
        assert!(!said.contains("MIGH") && !said.contains("77, 73"), "{said}");
    }
}

#[test]
fn a_key_is_not_shown() {
    let tls = Tls::new("ca").identity("certificate", "a-private-key");
    assert!(!format!("{tls:?}").contains("private"), "{tls:?}");
}

/// A CA and its key, in PEM.
fn authority() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn files_are_read_for_each_connection_and_broken_ones_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.crt");
    fs::write(&path, authority().0).unwrap();
    let tls = Tls::from_file(&path);
    tls.check().unwrap();
    let first = tls.current().await.unwrap();
    fs::write(&path, authority().0).unwrap();
    let second = tls.current().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second), "the CA was replaced");
    for broken in ["", "half a file", "-----BEGIN CERTIFICATE-----\nAAAA"] {
        fs::write(&path, broken).unwrap();
        assert!(tls.read_again().is_err(), "{broken}");
        let last = tls.current().await.unwrap();
        assert!(Arc::ptr_eq(&second, &last), "{broken}");
    }
    fs::remove_file(&path).unwrap();
    let last = tls.clone().current().await.unwrap();
    assert!(Arc::ptr_eq(&second, &last));
    assert!(Tls::from_file(&path).current().await.is_err(), "a new one");
}

#[cfg(unix)]
#[test]
fn key_that_every_user_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let (chain, key) = (directory.path().join("c"), directory.path().join("k"));
    let (certificate, secret) = authority();
    fs::write(&chain, &certificate).unwrap();
    fs::write(&key, secret).unwrap();
    let tls = || Tls::new(&certificate).identity_from_files(&chain, &key);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = tls().check().unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    tls().check().unwrap();
}

#[test]
fn name_to_expect_is_the_hosts_unless_another_is_said() {
    let tls = Tls::new("");
    for (host, name) in [("a", "a"), ("127.0.0.1", "127.0.0.1"), ("[::1]", "::1")] {
        let expected = ServerName::try_from(name).unwrap();
        assert_eq!(tls.name_of(host).unwrap(), expected);
    }
    let named = tls.server_name("b.example");
    let expected = ServerName::try_from("b.example").unwrap();
    assert_eq!(named.name_of("a").unwrap(), expected);
    assert!(Tls::new("").server_name("no name").name_of("a").is_err());
}
