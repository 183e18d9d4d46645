//! Who may read a key file, and what is taken of a file in PEM.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use helve_mcp::bearer::Verifier;
use serde_json::json;

use crate::tokens::{AUDIENCE, Claims, Signer, keys, p256_jwk};

#[test]
fn secret_of_a_set_is_refused_if_other_users_may_read_it() {
    let signer = Signer::secret();
    let path = signer.file();
    let mode = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let open = || Verifier::new(path, AUDIENCE, None);
    for wide in [0o644, 0o604, 0o602, 0o641] {
        mode(wide);
        let refused = open().unwrap_err().to_string();
        let remedy = format!("(mode {wide:o}): chmod 600 {}", path.display());
        assert!(refused.contains(&remedy), "{refused}");
    }
    // As Kubernetes mounts it, for the group of the pod.
    mode(0o440);
    open().unwrap();
}

#[test]
fn public_keys_may_be_open_to_every_user() {
    let set = json!({"keys": [p256_jwk(None)]});
    let public = Signer::es256_with(set.to_string().as_bytes());
    fs::set_permissions(public.file(), fs::Permissions::from_mode(0o644)).unwrap();
    Verifier::new(public.file(), AUDIENCE, None).unwrap();
}

#[test]
fn pem_with_keys_of_two_kinds_checks_tokens_of_both() {
    let read = |name: &str| fs::read_to_string(keys().join(name)).unwrap();
    let both = [read("es256.pub.pem"), read("eddsa.pub.pem")].concat();
    let file = Signer::es256_with(both.replace('\n', "\r\n").as_bytes());
    let verifier = Verifier::new(file.file(), AUDIENCE, None).unwrap();
    for signer in [Signer::es256(), Signer::eddsa()] {
        let token = signer.sign(&Claims::of("alice"));
        assert!(verifier.verify(&token).is_ok(), "{}", signer.name());
    }
    let shared = Signer::secret().sign(&Claims::of("alice"));
    assert!(verifier.verify(&shared).is_err());
}

#[test]
fn pem_without_line_ends_is_refused_with_what_to_do() {
    let public = fs::read_to_string(keys().join("es256.pub.pem")).unwrap();
    let signer = Signer::es256_with(public.replace('\n', "\\n").as_bytes());
    let refused = Verifier::new(signer.file(), AUDIENCE, None).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains(r"but its line ends are written as `\n`"),
        "{refused}"
    );
}

#[test]
fn pem_that_holds_no_public_key_is_refused_with_what_to_give() {
    let public = fs::read_to_string(keys().join("es256.pub.pem")).unwrap();
    for label in [
        "PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "CERTIFICATE",
        "CERTIFICATE REQUEST",
    ] {
        let other = public.replace("PUBLIC KEY", label);
        for content in [other.clone(), [public.clone(), other].concat()] {
            let signer = Signer::es256_with(content.as_bytes());
            let refused = Verifier::new(signer.file(), AUDIENCE, None).unwrap_err();
            let refused = refused.to_string();
            assert!(
                refused.contains(&format!("it holds a block {label:?}")),
                "{refused}"
            );
            assert!(refused.contains("openssl pkey -pubout"), "{refused}");
        }
    }
}

#[test]
fn a_file_that_is_absent_or_huge_is_refused() {
    assert!(Verifier::new(Path::new("/no/such/file"), AUDIENCE, None).is_err());
    let huge = Signer::es256_with(&vec![b'{'; (1 << 20) + 1]);
    let refused = Verifier::new(huge.file(), AUDIENCE, None).unwrap_err();
    assert!(
        refused.to_string().contains("over 1048576 bytes"),
        "{refused}"
    );
}
