//! What a key file may look like, and what is refused.

#![allow(clippy::unwrap_used)]

mod forms;
#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use std::{fs, os::unix::fs::PermissionsExt as _};

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use helve_mcp::bearer::{KeySource, Owners, TrustError, Trusted, Verifier};
use serde_json::{Value, json};

use crate::{
    forms::{bare, disguised, known, recognised},
    tokens::{AUDIENCE, Claims, SECRET, Signer, new_p256_jwk, p256_jwk},
};

/// Bytes of a secret.
const SECRET_BYTES_MIN: usize = 32;

#[test]
fn a_public_key_is_recognised_or_refused_and_never_a_secret() {
    for (name, content) in recognised() {
        let signer = Signer::es256_with(&content);
        let verifier = Verifier::new(signer.file(), AUDIENCE, None).expect(name);
        let token = signer.sign(&Claims::of("alice"));
        assert_eq!(
            verifier.verify(&token).unwrap().subject(),
            "alice",
            "{name}"
        );
        for secret in [&content[..], content.trim_ascii(), content.trim_ascii_end()] {
            let forged = Signer::shared(secret).sign(&Claims::of("alice"));
            assert!(verifier.verify(&forged).is_err(), "{name}");
        }
    }
    for (name, content) in disguised() {
        let signer = Signer::es256_with(&content);
        let refused = Verifier::new(signer.file(), AUDIENCE, None).expect_err(name);
        let path = signer.file().display().to_string();
        assert!(refused.to_string().contains(&path), "{name}: {refused}");
    }
}

#[test]
fn a_refusal_says_what_the_file_looks_like() {
    let table = [
        ("PEM behind a mark", "byte-order mark"),
        ("SSH", "SSH public key"),
        ("SSH without its name", "SSH public key"),
        ("DER", "in DER"),
        ("base64 of DER", "in DER"),
        ("hex of DER", "in DER"),
        ("base64 of DER in lines", "several lines"),
        ("prefixed hex of DER", "0x"),
        ("a page", "HTML"),
        ("nothing", "empty"),
        ("PEM in UTF-16", "UTF-16"),
        ("quoted", "quotation marks"),
        ("a certificate's label", "openssl x509 -pubkey"),
        ("a key without its set", "keys"),
        ("words", "--token-secret-file"),
        ("a thumbprint", "holds 32 bytes"),
        ("a point", "a point on an elliptic curve"),
        ("a point without its tag", "--token-secret-file"),
    ];
    let disguised = disguised();
    for (name, what) in table {
        let (_, content) = disguised.iter().find(|(other, _)| *other == name).unwrap();
        let signer = Signer::es256_with(content);
        let refused = Verifier::new(signer.file(), AUDIENCE, None).unwrap_err();
        assert!(refused.to_string().contains(what), "{name}: {refused}");
    }
}

/// Each of these lengths is also that of a public value.
#[tokio::test]
async fn secrets_of_random_generators_must_be_said() {
    let key: Vec<u8> = (0x80..0xc0).collect();
    let hex = HEXLOWER.encode(&key[..32]);
    let lines = [
        BASE64.encode(&key[..32]),
        BASE64.encode(&key[..40]),
        BASE64.encode(&key[..48]),
        BASE64.encode(&key),
        BASE64URL_NOPAD.encode(&key[..32]),
        hex[..62].to_owned(),
        hex[..32].to_owned(),
        hex.to_uppercase(),
        hex,
    ];
    for line in lines {
        let content = format!("{line}\r\n");
        let signer = Signer::es256_with(content.as_bytes());
        let refused = Verifier::new(signer.file(), AUDIENCE, None).expect_err(&line);
        assert!(
            refused.to_string().contains("--token-secret-file"),
            "{refused}"
        );
        // The secret is the line and not what it encodes.
        let token = Signer::shared(line.as_bytes()).sign(&Claims::of("alice"));
        let said = open_secret(content.as_bytes(), 0o600).await;
        let is_long = line.len() >= SECRET_BYTES_MIN;
        assert_eq!(said.is_ok_and(|it| it.verify(&token).is_ok()), is_long);
    }
}

#[test]
fn a_set_may_hold_a_secret_since_it_says_so() {
    let signer = Signer::secret();
    let verifier = Verifier::new(signer.file(), AUDIENCE, None).unwrap();
    assert!(verifier.verify(&signer.sign(&Claims::of("alice"))).is_ok());
}

/// As `random_password` of Terraform and `pwgen -sy` write them.
#[tokio::test]
async fn a_secret_with_punctuation_is_taken_from_a_set_alone() {
    for secret in [
        "x}2Q:k#9Vb!mT@4w^Lz&8Rp*Hc_Y7(nD)0sG",
        "G7-hT]w2[<Zp?9>vK+e=R4%jX6$dMbN1aQ8c",
        "mV'8r~Uq/3\\Jt;Ls|5Hy,Xf.Wd`Pz\"Ck2Bn6E",
    ] {
        let refused = open_secret(secret.as_bytes(), 0o600).await.unwrap_err();
        for remedy in ["`oct` entry of a JWK set", "--token-key-file"] {
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
        let entry = json!({"kty": "oct", "k": BASE64URL_NOPAD.encode(secret.as_bytes())});
        let set = Signer::es256_with(json!({"keys": [entry]}).to_string().as_bytes());
        let verifier = Verifier::new(set.file(), AUDIENCE, None).expect(secret);
        let token = Signer::shared(secret.as_bytes()).sign(&Claims::of("alice"));
        assert!(verifier.verify(&token).is_ok(), "{secret}");
    }
}

async fn open(source: KeySource) -> Result<Verifier, TrustError> {
    let trusted = Trusted {
        issuer: None,
        keys: vec![source],
        owners: Owners::Plain,
    };
    Verifier::open(vec![trusted], AUDIENCE).await
}

async fn open_secret(content: &[u8], mode: u32) -> Result<Verifier, TrustError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), content).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
    open(KeySource::SecretFile(file.path().to_owned())).await
}

#[tokio::test]
async fn a_file_that_is_said_to_be_a_secret_is_taken_as_it_is() {
    let binary: Vec<u8> = (0x80..0xb0).collect();
    let good = [
        SECRET,
        b"PasswordsOfManagers0LikeThisOne1Have62Digits",
        &binary,
        b"0123456789abcdef0123456789abcdef",
    ];
    for secret in good {
        let verifier = open_secret(&[secret, b"\n"].concat(), 0o600).await.unwrap();
        let token = Signer::shared(secret).sign(&Claims::of("alice"));
        assert!(verifier.verify(&token).is_ok());
    }
    for phrase in [&b"a secret of thirty-two bytes or so"[..], &binary[1..]] {
        let refused = open_secret(phrase, 0o600).await.unwrap_err();
        assert!(refused.to_string().contains("openssl rand"), "{refused}");
    }
    let refused = open_secret(&[b'x'; 31], 0o600).await.unwrap_err();
    assert!(refused.to_string().contains("31 bytes"), "{refused}");
    let refused = open_secret(SECRET, 0o644).await.unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
}

#[tokio::test]
async fn a_public_key_is_no_secret_though_it_is_said_to_be() {
    let mut forms = recognised();
    forms.extend(disguised());
    let known = known().into_iter();
    forms.extend(known.map(|(name, text)| (name, text.into_bytes())));
    for (name, content) in forms {
        // What cannot be told from a secret is what was said.
        if bare().iter().any(|(bare, _)| *bare == name) {
            assert!(open_secret(&content, 0o600).await.is_ok(), "{name}");
            continue;
        }
        assert!(open_secret(&content, 0o600).await.is_err(), "{name}");
        // Nor is it one because a set says so.
        if name.contains("DER") || name.contains("SSH") {
            let entry = json!({"kty": "oct", "k": BASE64URL_NOPAD.encode(&content)});
            let signer = Signer::es256_with(json!({"keys": [entry]}).to_string().as_bytes());
            let refused = Verifier::new(signer.file(), AUDIENCE, None);
            assert!(refused.is_err(), "{name}");
        }
    }
}

#[test]
fn odd_entries_of_a_set_are_skipped_and_the_rest_works() {
    let private = {
        let mut jwk = p256_jwk(Some("private"));
        jwk["d"] = json!("AAAA");
        jwk
    };
    let with = |id: &str, change: fn(&mut Value)| {
        let mut jwk = p256_jwk(Some(id));
        change(&mut jwk);
        jwk
    };
    let odd = [
        json!({"kid": "no kty"}),
        json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA", "kid": "new"}),
        json!({"kty": "EC", "crv": "P-521", "x": "AAAA", "y": "AAAA"}),
        json!({"kty": "OKP", "crv": "Ed448", "x": "AAAA"}),
        json!({"kty": "oct", "k": "c2hvcnQ"}),
        json!({"kty": "RSA", "n": "AAAA", "e": "AQAB"}),
        json!("a text"),
        json!(7),
        json!(null),
        json!([]),
        with("numeric", |jwk| jwk["kid"] = json!(7)),
        with("encrypts", |jwk| jwk["use"] = json!("enc")),
        with("signs", |jwk| jwk["key_ops"] = json!(["sign"])),
        with("algorithm", |jwk| jwk["alg"] = json!("HS256")),
        with("none", |jwk| jwk["alg"] = json!("none")),
        with("short", |jwk| jwk["x"] = json!("AAAA")),
        with("zero", |jwk| {
            jwk["x"] = json!("A".repeat(43));
            jwk["y"] = jwk["x"].clone();
        }),
        with("off the curve", |jwk| jwk["y"] = jwk["x"].clone()),
        json!({"kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43)}),
        with("no base64", |jwk| jwk["x"] = json!("!")),
        private,
    ];
    let mut keys = odd.to_vec();
    keys.insert(3, p256_jwk(Some("good")));
    let signer = Signer::es256_with(json!({"keys": keys, "more": 1}).to_string().as_bytes());
    let verifier = Verifier::new(signer.file(), AUDIENCE, None).unwrap();
    let sign =
        |id: &str| signer.sign_with(&json!({"alg": "ES256", "kid": id}), &Claims::of("alice"));
    assert!(verifier.verify(&sign("good")).is_ok());
    for id in [
        "private",
        "encrypts",
        "signs",
        "algorithm",
        "none",
        "short",
        "7",
    ] {
        assert!(verifier.verify(&sign(id)).is_err(), "{id}");
    }
    let signer = Signer::es256_with(json!({"keys": odd}).to_string().as_bytes());
    let refused = Verifier::new(signer.file(), AUDIENCE, None).unwrap_err();
    assert!(refused.to_string().contains("no usable key"), "{refused}");
}

#[test]
fn a_key_id_that_comes_twice_is_tried_against_each() {
    let other = new_p256_jwk("same");
    let sets = [
        json!({"keys": [other.clone(), p256_jwk(Some("same"))]}),
        json!({"keys": [p256_jwk(Some("same")), other.clone()]}),
    ];
    let header = json!({"alg": "ES256", "kid": "same"});
    for set in sets {
        let signer = Signer::es256_with(set.to_string().as_bytes());
        let verifier = Verifier::new(signer.file(), AUDIENCE, None).unwrap();
        let token = signer.sign_with(&header, &Claims::of("alice"));
        assert!(verifier.verify(&token).is_ok());
    }
    // Not against any number of them.
    let mut keys: Vec<_> = (0..7).map(|_| new_p256_jwk("same")).collect();
    keys.push(p256_jwk(Some("same")));
    let signer = Signer::es256_with(json!({"keys": keys}).to_string().as_bytes());
    let verifier = Verifier::new(signer.file(), AUDIENCE, None).unwrap();
    let token = signer.sign_with(&header, &Claims::of("alice"));
    assert!(verifier.verify(&token).is_ok());
    keys.insert(0, other);
    let signer = Signer::es256_with(json!({"keys": keys}).to_string().as_bytes());
    let refused = Verifier::new(signer.file(), AUDIENCE, None).unwrap_err();
    let named = "9 keys for ES256 have the `kid` \"same\"";
    assert!(refused.to_string().contains(named), "{refused}");
}
