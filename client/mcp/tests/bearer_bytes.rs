//! No token that a client makes up speaks for anybody.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use data_encoding::BASE64URL_NOPAD;
use helve_mcp::bearer::Verifier;
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

use crate::tokens::{AUDIENCE, Claims, Signer};

/// Ten thousand cases, or as many as the environment asks for.
#[test]
fn no_token_that_a_client_makes_up_speaks_for_anybody() {
    let cases = std::env::var("HELVE_CASES").ok();
    let cases = cases.map_or(10_000, |cases| cases.parse().unwrap());
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
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&tokens, |token| {
            for verifier in &verifiers {
                prop_assert!(verifier.verify(&token).is_err(), "{token}");
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Tokens of the right form with claims of any kind, and a signature that nobody made.
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
    let good = prop::sample::select(good);
    let change = (good, any::<prop::sample::Index>(), "[A-Za-z0-9_.-]");
    change.prop_filter_map("it is the same", |(token, at, to)| {
        let at = at.index(token.len());
        let mut other = token.clone();
        other.replace_range(at..=at, &to);
        (other != token).then_some(other)
    })
}
