//! No token that a client makes up speaks for anybody.

#![allow(clippy::unwrap_used)]

#[path = "../../src/properties.rs"]
mod properties;
#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use data_encoding::BASE64URL_NOPAD;
use helve_mcp::bearer::Verifier;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    properties::check,
    tokens::{AUDIENCE, Claims, Signer},
};

#[test]
fn no_token_that_a_client_makes_up_speaks_for_anybody() {
    let signers = [
        Signer::secret(),
        Signer::es256(),
        Signer::eddsa(),
        Signer::set(),
    ];
    let verifiers = signers
        .each_ref()
        .map(|signer| Verifier::new(signer.file(), AUDIENCE, None).unwrap());
    let good = signers
        .each_ref()
        .map(|signer| signer.sign(&Claims::of("alice")));
    for (verifier, token) in verifiers.iter().zip(&good) {
        assert_eq!(verifier.verify(token).unwrap().subject(), "alice");
    }
    let tokens = prop_oneof![
        any::<String>(),
        "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,90}",
        claimed(),
        changed(good.to_vec()),
    ];
    check(&tokens, |token| {
        for verifier in &verifiers {
            prop_assert!(verifier.verify(&token).is_err(), "{token}");
        }
        Ok(())
    });
}

/// Tokens of the right form with claims of any kind, and a signature that no key made.
fn claimed() -> impl Strategy<Value = String> {
    let algorithm = prop::sample::select(vec!["HS256", "ES256", "EdDSA", "RS256", "none", ""]);
    let claim = prop_oneof![
        Just(Value::Null),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "alice|https://shop.example/mcp|\\PC{0,8}".prop_map(Value::from),
    ];
    let claims = (claim.clone(), claim.clone(), claim);
    let signature = prop::collection::vec(any::<u8>(), 0..80);
    (algorithm, claims, signature).prop_map(|(algorithm, (sub, aud, exp), signature)| {
        let part = |json: Value| BASE64URL_NOPAD.encode(json.to_string().as_bytes());
        let header = part(json!({"alg": algorithm}));
        let claims = part(json!({"sub": sub, "aud": aud, "exp": exp}));
        format!("{header}.{claims}.{}", BASE64URL_NOPAD.encode(&signature))
    })
}

/// A good token with one character that is another.
fn changed(good: Vec<String>) -> impl Strategy<Value = String> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    let good = prop::sample::select(good);
    let change = (good, any::<prop::sample::Index>(), 1..LETTERS.len());
    change.prop_map(|(token, at, further)| {
        let mut token = token.into_bytes();
        let at = at.index(token.len());
        let letter = &mut token[at];
        let place = LETTERS.iter().position(|other| other == letter).unwrap();
        *letter = LETTERS[(place + further) % LETTERS.len()];
        String::from_utf8(token).unwrap()
    })
}
