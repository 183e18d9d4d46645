//! Which URLs are asked for keys, and what of their answers is believed.

use jsonwebtoken::Algorithm;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::properties::check;

/// A JWK of members that keys have, each with a value that fits or not.
fn made_up_key() -> impl Strategy<Value = Value> {
    let names = [
        "kty", "crv", "alg", "kid", "use", "key_ops", "x", "y", "n", "e", "k", "d",
    ];
    let text = "EC|OKP|RSA|oct|P-256|Ed25519|HS256|ES256|sig|AQAB|[A-Za-z0-9_-]{43}|\\PC{0,9}";
    let value = prop_oneof![
        4 => text.prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => Just(json!(["verify"])),
        1 => Just(Value::Null),
    ];
    let member = (prop::sample::select(names.to_vec()), value);
    prop::collection::vec(member, 0..9).prop_map(|members| {
        let members = members.into_iter();
        let members: Map<_, _> = members.map(|(name, of)| (name.to_owned(), of)).collect();
        Value::Object(members)
    })
}

#[test]
fn no_set_that_an_issuer_makes_up_gives_a_secret_or_panics() {
    let set = prop::collection::vec(made_up_key(), 0..4);
    let body = prop_oneof![
        3 => set.prop_map(|keys| json!({ "keys": keys }).to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..60),
    ];
    let case = (body, "[a-z=,0-9 -]{0,30}|max-age=\\PC{0,25}");
    check(&case, |(body, said)| {
        if let Ok(found) = jwks::parse(&body, Origin::Url) {
            let mut algorithms = found.keys.iter().map(|key| key.algorithm);
            prop_assert!(algorithms.all(|algorithm| algorithm != Algorithm::HS256));
        }
        let mut headers = HeaderMap::new();
        if let Ok(said) = HeaderValue::from_str(&said) {
            headers.insert(header::CACHE_CONTROL, said);
        }
        let _any_duration = fresh(&headers);
        Ok(())
    });
}

#[test]
fn only_https_and_this_machine_are_asked_for_keys() {
    let good = [
        "http://127.0.0.1:8080/jwks",
        "http://[::1]/jwks",
        "http://[::ffff:7f00:1]/jwks",
        "http://localhost:1/a",
    ];
    for url in good {
        assert_eq!(JwksUrl::parse(url).unwrap().to_string(), url);
    }
    let keyed = JwksUrl::parse("http://localhost:1/a?key=secret").unwrap();
    assert_eq!(keyed.url.query(), Some("key=secret"));
    assert!(!format!("{keyed} {keyed:?} {}", keyed.shown()).contains("secret"));
    let bad = [
        "",
        "jwks.json",
        "/etc/jwks.json",
        "file:///etc/jwks.json",
        "ftp://127.0.0.1/jwks",
        "http://id.example/jwks",
        "http://10.0.0.1/jwks",
        "http://127.0.0.1.id.example/jwks",
        "http://localhost.id.example/jwks",
        "http://127.0.0.1@id.example/jwks",
        "http://alice:secret@127.0.0.1/jwks",
        "http://127.0.0.1/jwks#1",
    ];
    for url in bad {
        let refused = JwksUrl::parse(url).unwrap_err();
        assert!(!refused.to_string().is_empty(), "{url}");
    }
}

#[test]
fn a_set_is_fresh_as_long_as_its_headers_say() {
    let table = [
        (None, FRESH_DEFAULT),
        (Some("max-age=120"), Duration::from_secs(120)),
        (
            Some("public, MAX-AGE=600, must-revalidate"),
            Duration::from_secs(600),
        ),
        (Some("max-age=0"), Duration::ZERO),
        (Some("max-age=99999999999999999999"), Duration::ZERO),
        (Some("max-age=86400"), Duration::from_secs(86_400)),
        (Some("max-age=600, no-cache"), Duration::ZERO),
        (Some("no-store"), Duration::ZERO),
        (Some("private"), FRESH_DEFAULT),
    ];
    for (said, expected) in table {
        let mut headers = HeaderMap::new();
        if let Some(said) = said {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(said));
        }
        assert_eq!(fresh(&headers), expected, "{said:?}");
    }
    // A cache on the way has held it.
    let table = [
        ("100", Duration::from_secs(500)),
        ("600", Duration::ZERO),
        ("86400", Duration::ZERO),
        ("-1", Duration::from_secs(600)),
        ("a while", Duration::from_secs(600)),
    ];
    for (age, expected) in table {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("max-age=600"),
        );
        headers.insert(header::AGE, HeaderValue::from_static(age));
        assert_eq!(fresh(&headers), expected, "{age}");
    }
}
