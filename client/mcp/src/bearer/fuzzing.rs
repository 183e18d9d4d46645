//! Tokens that a client makes up, and keys that an issuer or an operator wrote.

use std::{
    fs,
    path::Path,
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};

use data_encoding::BASE64URL_NOPAD;
use helve_seal::Looks;
use http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::Algorithm;
use ring::hmac;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Verifier, jwks,
    jwks_url::fresh,
    key::Origin,
    key_file::{self, Content, Said},
};

const AUDIENCE: &str = "https://shop.example/mcp";
/// As `openssl rand -base64 32` writes it. The line itself is the secret.
const SECRET: &[u8] = b"gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp8=";
const HEADER: &[u8] = br#"{"alg":"HS256","typ":"JWT"}"#;
/// Seconds that an issuer's clock may be off, and one that this takes.
const LEEWAY_SECONDS: f64 = 61.0;

/// Claims that must hold. The others may be no text at all: the issuer signed them, and nothing
/// reads them.
#[derive(Deserialize)]
struct Claimed {
    sub: Value,
    aud: Value,
    exp: Value,
}

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let name = format!("helve-token-secret-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, SECRET).expect("a place for a file");
    make_private(&path);
    let verifier = Verifier::of_secret(&path, AUDIENCE, None);
    fs::remove_file(&path).expect("it was written");
    verifier.expect("a secret of 32 bytes")
});

#[cfg(unix)]
fn make_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

#[cfg(not(unix))]
fn make_private(_: &Path) {}

/// Checks a token. The first byte says what the rest is: the token, claims to sign, or a header and
/// claims to sign.
///
/// # Panics
/// If a token is admitted that the issuer did not sign, or one without the claims that must hold.
pub fn bearer_token(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind % 3 {
        0 => {
            let text = String::from_utf8_lossy(rest);
            assert!(VERIFIER.verify(&text).is_err(), "{text}");
        }
        1 => claimed(HEADER, rest),
        _ => {
            let mut parts = rest.splitn(2, |byte| *byte == b'\n');
            let header = parts.next().unwrap_or_default();
            claimed(header, parts.next().unwrap_or_default());
        }
    }
}

fn claimed(header: &[u8], claims: &[u8]) {
    let signed = [header, claims].map(|part| BASE64URL_NOPAD.encode(part));
    let signed = signed.join(".");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let signature = BASE64URL_NOPAD.encode(hmac::sign(&key, signed.as_bytes()).as_ref());
    let Ok(principal) = VERIFIER.verify(&format!("{signed}.{signature}")) else {
        return;
    };
    let claims: Claimed = serde_json::from_slice(claims).expect("they were read");
    assert_eq!(claims.sub, principal.subject());
    let is_meant = |audience: &Value| audience == AUDIENCE;
    let all = claims.aud.as_array();
    assert!(is_meant(&claims.aud) || all.is_some_and(|all| all.iter().any(is_meant)));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("after the epoch").as_secs_f64();
    let ends = claims.exp.as_f64().expect("a number");
    assert!(ends > now - LEEWAY_SECONDS, "{ends}");
}

/// Reads a JWK set from a URL; behind its first NUL, how long it may be used.
///
/// # Panics
/// If it gives a shared secret.
pub fn key_set(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (body, said) = (parts.next().unwrap_or_default(), parts.next());
    if let Ok(found) = jwks::parse(body, Origin::Url) {
        let mut algorithms = found.keys.iter().map(|key| key.algorithm);
        assert!(algorithms.all(|algorithm| algorithm != Algorithm::HS256));
    }
    let mut headers = HeaderMap::new();
    if let Ok(said) = HeaderValue::from_bytes(said.unwrap_or_default()) {
        headers.insert(header::CACHE_CONTROL, said);
    }
    let _any_duration = fresh(&headers);
}

/// Reads a key file, as one of keys and as one of a secret.
///
/// # Panics
/// If what is no JSON becomes a secret though none was said, or what may be public because it was.
pub fn key_file(bytes: &[u8]) {
    let content = Content {
        bytes: bytes.to_vec().into(),
        is_regular: true,
        exposed: None,
    };
    if let Ok(keys) = key_file::parse(&content, Said::Keys, Path::new("keys")) {
        assert!(!keys.hold_secret() || Looks::of(bytes) == Looks::Json);
    }
    if key_file::parse(&content, Said::Secret, Path::new("secret")).is_ok() {
        assert_eq!(Looks::public_in(bytes), None);
    }
}
