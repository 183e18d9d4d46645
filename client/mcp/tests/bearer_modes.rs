//! Who may read a key file.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use std::{fs, os::unix::fs::PermissionsExt as _};

use helve_mcp::bearer::Verifier;
use serde_json::json;

use crate::tokens::{AUDIENCE, Signer, p256_jwk};

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
