//! Forms of public keys, and of what else is no secret.

use std::fs;

use data_encoding::{BASE64, BASE64_MIME, BASE64URL_NOPAD, HEXLOWER};
use ring::digest::{SHA256, SHA512, digest};
use serde_json::json;

use crate::tokens::{Claims, Signer, der, keys, p256_jwk};

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

fn pem() -> String {
    fs::read_to_string(keys().join("es256.pub.pem")).unwrap()
}

/// Forms in which the public key is what it is.
pub(crate) fn recognised() -> Vec<(&'static str, Vec<u8>)> {
    let pem = pem();
    let set = json!({"keys": [p256_jwk(None)]});
    let forms = [
        ("plain", pem.clone()),
        ("CRLF", pem.replace('\n', "\r\n")),
        (
            "a comment before it",
            format!("# the key of our shop\n{pem}"),
        ),
        (
            "bag attributes",
            format!(
                "Bag Attributes\n    localKeyID: 01 02\nKey Attributes: <No Attributes>\n{pem}"
            ),
        ),
        ("blank lines around it", format!("\n\n  \n{pem}\n\n")),
        ("a key twice", format!("{pem}{pem}")),
        ("a set", set.to_string()),
        ("a set in lines", format!("\n{set:#}\n")),
    ];
    forms.map(|(name, text)| (name, text.into_bytes())).into()
}

/// Public values that are nothing but bytes, as many as random generators write.
pub(crate) fn bare() -> Vec<(&'static str, Vec<u8>)> {
    let of = |name: &str| der(name);
    let (p256, ed25519) = (of("es256.pub.pem"), of("eddsa.pub.pem"));
    let p384 = of("p384.pub.pem");
    let point = &p256[p256.len() - 64..];
    let octets = &ed25519[ed25519.len() - 32..];
    let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    // RFC 7638, section 3: the members of the key, in this order.
    let members = format!(
        r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#,
        part(&point[..32]),
        part(&point[32..])
    );
    let sha256 = |text: &[u8]| digest(&SHA256, text).as_ref().to_vec();
    let texts = [
        ("an Ed25519 key of a JWK", part(octets)),
        ("an Ed25519 key of WireGuard", BASE64.encode(octets)),
        ("hex of an Ed25519 key", HEXLOWER.encode(octets)),
        ("a point without its tag", BASE64.encode(point)),
        ("hex of such a point", HEXLOWER.encode(point)),
        ("a coordinate on P-256", part(&point[..32])),
        ("a coordinate on P-384", part(&p384[p384.len() - 48..])),
        ("a thumbprint", part(&sha256(members.as_bytes()))),
        ("a fingerprint", HEXLOWER.encode(&sha256(&p256))),
        (
            "a SHA-512",
            HEXLOWER.encode(digest(&SHA512, &p256).as_ref()),
        ),
    ];
    texts.map(|(name, text)| (name, text.into_bytes())).into()
}

/// Forms that are refused, though a public key is in them.
pub(crate) fn disguised() -> Vec<(&'static str, Vec<u8>)> {
    let pem = pem();
    let der = der("es256.pub.pem");
    let set = json!({"keys": [p256_jwk(None)]}).to_string();
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut wire = Vec::new();
    for field in [
        &b"ecdsa-sha2-nistp256"[..],
        b"nistp256",
        &der[der.len() - 65..],
    ] {
        wire.extend_from_slice(&u32::try_from(field.len()).unwrap().to_be_bytes());
        wire.extend_from_slice(field);
    }
    let ssh = BASE64.encode(&wire);
    let texts = [
        ("PEM behind a mark", format!("\u{feff}{pem}")),
        ("a set behind a mark", format!("\u{feff}{set}")),
        ("SSH", format!("ecdsa-sha2-nistp256 {ssh} alice@shop\n")),
        ("SSH without its name", ssh),
        ("base64 of DER", body.clone()),
        ("base64 of DER in lines", BASE64_MIME.encode(&der)),
        ("hex of DER", HEXLOWER.encode(&der)),
        (
            "prefixed hex of DER",
            format!("0x{}", HEXLOWER.encode(&der)),
        ),
        ("base64url of DER", BASE64URL_NOPAD.encode(&der)),
        ("base64 of PEM", BASE64.encode(pem.as_bytes())),
        ("base64 of a set", BASE64.encode(set.as_bytes())),
        ("escaped PEM", pem.replace('\n', "\\n")),
        ("half a PEM", pem[..60].to_owned()),
        (
            "PEM without its end",
            pem.lines().take(2).collect::<Vec<_>>().join("\n"),
        ),
        ("another label", pem.replace("PUBLIC KEY", "EC PUBLIC KEY")),
        (
            "a certificate's label",
            pem.replace("PUBLIC KEY", "CERTIFICATE"),
        ),
        (
            "a page",
            format!("<!DOCTYPE html>\n<html><pre>{body}</pre></html>"),
        ),
        ("a key without its set", p256_jwk(None).to_string()),
        ("YAML", format!("key: {body}\n")),
        ("quoted", format!("\"{body}\"")),
        ("a point", HEXLOWER.encode(&der[der.len() - 65..])),
        ("nothing", String::new()),
        ("a line end", "\r\n".to_owned()),
        (
            "words",
            "correct horse battery staple and more words".to_owned(),
        ),
    ];
    let mut forms: Vec<_> = texts.map(|(name, text)| (name, text.into_bytes())).into();
    forms.extend([
        ("DER", der),
        ("SSH's wire form", wire),
        ("PEM in UTF-16", utf16(&pem, u16::to_le_bytes)),
        (
            "PEM in UTF-16 behind a mark",
            utf16(&format!("\u{feff}{pem}"), u16::to_be_bytes),
        ),
        ("a set in UTF-16", utf16(&set, u16::to_le_bytes)),
    ]);
    forms.extend(bare());
    forms
}

/// What others know, in forms that no key file has, and what a secret is not.
pub(crate) fn known() -> Vec<(&'static str, String)> {
    let der = BASE64.encode(&der("es256.pub.pem"));
    let set = json!({"keys": [p256_jwk(None)]}).to_string();
    let ssh = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    let secret = BASE64.encode(&[0xab; 32]);
    vec![
        (
            "an indented body",
            format!("    {}\r\n    {}\n", &der[..64], &der[64..]),
        ),
        (
            "base64 of a body in lines",
            BASE64.encode(BASE64_MIME.encode(der.as_bytes()).as_bytes()),
        ),
        ("SSH behind a comment", format!("# ours\n{ssh} alice\n")),
        ("known hosts", format!("shop.example {ssh}\n")),
        ("authorized keys", format!("restrict,command=\"x\" {ssh}\n")),
        (
            "RFC 4716",
            format!("---- BEGIN SSH2 PUBLIC KEY ----\n{}\n", &ssh[12..]),
        ),
        (
            "a reply with a set",
            format!("HTTP/1.1 200 OK\r\n\r\n{set}"),
        ),
        (
            "a reply with a page",
            "HTTP/2 404\r\n\r\n<html>not found, sorry</html>".to_owned(),
        ),
        ("a program", format!("var jwks = {set};")),
        ("a set behind a comment", format!("// ours\n{set}")),
        (
            "a set in YAML",
            "keys:\n  - kty: RSA\n    n: wJ3bCvzVhYJkZx0\n".to_owned(),
        ),
        (
            "the URL of a set",
            "https://id.example/.well-known/jwks.json".to_owned(),
        ),
        ("a token", Signer::secret().sign(&Claims::of("alice"))),
        ("a modulus", BASE64URL_NOPAD.encode(&[0xc3; 256])),
        (
            "a modulus behind its name",
            format!("n={}", BASE64URL_NOPAD.encode(&[0xc3; 256])),
        ),
        ("a secret in quotes", format!("'{secret}'")),
        ("a secret behind a prefix", format!("base64:{secret}")),
        ("two secrets", format!("{secret}\n{secret}\n")),
        (
            "two phrases",
            "correct horse battery\nstaple and more words\n".to_owned(),
        ),
    ]
}
