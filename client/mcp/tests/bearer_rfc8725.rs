//! The attacks on JWTs that RFC 8725 lists, by its sections.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use std::fs;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use helve_mcp::bearer::{Rejected, Verifier};
use serde_json::{Value, json};

use crate::tokens::{AUDIENCE, Claims, Signer, confused, keys, now, p256_jwk, unsigned};

const ISSUER: &str = "https://issuer.example";

fn all() -> [Signer; 5] {
    [
        Signer::secret(),
        Signer::es256(),
        Signer::eddsa(),
        Signer::rs256(),
        Signer::set(),
    ]
}

fn verifier(signer: &Signer) -> Verifier {
    Verifier::new(signer.file(), AUDIENCE, Some(ISSUER.to_owned())).unwrap()
}

fn claims() -> Value {
    serde_json::to_value(Claims::of("alice")).unwrap()
}

/// What holds, with one claim that is another; `None`: without it.
fn with(name: &str, value: Option<Value>) -> Value {
    let mut claims = claims();
    match value {
        Some(value) => claims[name] = value,
        None => drop(claims.as_object_mut().unwrap().remove(name)),
    }
    claims
}

/// Section 3.1: the key says the algorithm, and the token never does.
#[test]
fn a_token_cannot_choose_its_algorithm() {
    for signer in all() {
        let verifier = verifier(&signer);
        for algorithm in [
            "none", "None", "NONE", "", "HS256", "HS384", "HS512", "RS256", "PS256", "ES256",
            "ES384", "EdDSA", "ES256K", "RSA-OAEP", "dir",
        ] {
            if algorithm == signer.name() {
                continue;
            }
            let token =
                signer.sign_with(&json!({"alg": algorithm, "kid": "of the set"}), &claims());
            assert!(
                verifier.verify(&token).is_err(),
                "{algorithm} for {}",
                signer.name()
            );
        }
        assert!(verifier.verify(&unsigned()).is_err());
        let token = signer.sign(&Claims::of("alice"));
        assert!(verifier.verify(&token).is_ok(), "{}", signer.name());
        let (message, _) = token.rsplit_once('.').unwrap();
        for signature in ["", "AAAA", &"A".repeat(86)] {
            let bare = format!("{message}.{signature}");
            assert!(verifier.verify(&bare).is_err(), "{signature:?}");
        }
    }
}

/// Sections 2.1 and 3.1: a public key is no secret, in whichever form it is known.
#[test]
fn a_public_key_is_no_secret() {
    let public = fs::read(keys().join("es256.pub.pem")).unwrap();
    let set = fs::read(Signer::set().file()).unwrap();
    for signer in [Signer::es256(), Signer::set()] {
        let verifier = verifier(&signer);
        assert!(verifier.verify(&confused()).is_err());
        for secret in [&public[..], public.trim_ascii(), &set] {
            let forger = Signer::shared(secret);
            let headers = [
                json!({"alg": "HS256"}),
                json!({"alg": "HS256", "kid": "of the set"}),
                json!({"alg": "ES256", "kid": "of the set"}),
            ];
            for header in headers {
                let token = forger.sign_with(&header, &claims());
                assert!(verifier.verify(&token).is_err(), "{header}");
            }
        }
    }
}

/// Sections 3.2 and 3.5: weak keys are refused before anything is served.
#[test]
fn weak_keys_are_refused() {
    let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let rsa = |n: &[u8], e: &[u8]| json!({"kty": "RSA", "n": part(n), "e": part(e)});
    let weak = [
        rsa(&[0xff; 128], &[1, 0, 1]),
        rsa(&[0x7f; 256], &[1, 0, 1]),
        rsa(&[[0; 128], [0xff; 128]].concat(), &[1, 0, 1]),
        rsa(&[0xff; 256], &[1]),
        rsa(&[0xff; 256], &[2]),
        rsa(&[0xff; 256], &[]),
        rsa(&[], &[1, 0, 1]),
        json!({"kty": "oct", "k": part(&[7; 31])}),
        json!({"kty": "oct", "k": part(&[0; 32])}),
        json!({"kty": "oct", "k": part(&b"01234".repeat(8))}),
    ];
    for jwk in weak {
        let signer = Signer::es256_with(json!({"keys": [jwk]}).to_string().as_bytes());
        let refused = Verifier::new(signer.file(), AUDIENCE, None);
        assert!(refused.is_err(), "{jwk}");
    }
}

/// Section 3.5: the points of a small order, for which anybody can make a signature up.
#[test]
fn keys_that_need_no_private_key_are_refused() {
    let middle = |first: u8, byte: u8, last: u8| [&[first][..], &[byte; 30], &[last]].concat();
    let of_order_8 = |hex: &str| HEXLOWER.decode(hex.as_bytes()).unwrap();
    let points = [
        middle(0, 0, 0),
        middle(0, 0, 0x80),
        middle(1, 0, 0),
        middle(1, 0, 0x80),
        middle(0xec, 0xff, 0x7f),
        middle(0xec, 0xff, 0xff),
        middle(0xed, 0xff, 0x7f),
        middle(0xed, 0xff, 0xff),
        middle(0xee, 0xff, 0x7f),
        middle(0xee, 0xff, 0xff),
        of_order_8("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
        of_order_8("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
        of_order_8("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
        of_order_8("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
    ];
    for point in points {
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": BASE64URL_NOPAD.encode(&point)});
        let signer = Signer::es256_with(json!({"keys": [jwk]}).to_string().as_bytes());
        let refused = Verifier::new(signer.file(), AUDIENCE, None).unwrap_err();
        assert!(refused.to_string().contains("small order"), "{refused}");
    }
}

/// A point on P-256 is public, though an entry says that it is a secret.
#[test]
fn a_point_in_a_set_is_no_secret() {
    let jwk = p256_jwk(None);
    let coordinate = |name: &str| {
        let text = jwk[name].as_str().unwrap();
        BASE64URL_NOPAD.decode(text.as_bytes()).unwrap()
    };
    let point = [&[4][..], &coordinate("x"), &coordinate("y")].concat();
    let said = json!({"kty": "oct", "k": BASE64URL_NOPAD.encode(&point)});
    let signer = Signer::es256_with(json!({"keys": [said]}).to_string().as_bytes());
    let refused = Verifier::new(signer.file(), AUDIENCE, None).unwrap_err();
    assert!(refused.to_string().contains("may be public"), "{refused}");
}

/// Section 3.4: what is no point of the curve, or no signature, is refused and panics nowhere.
#[test]
fn impossible_keys_and_signatures_verify_nothing() {
    let mut jwk = p256_jwk(None);
    jwk["y"] = jwk["x"].clone();
    let keys = [jwk, p256_jwk(None)];
    for (keys, is_usable) in [(&keys[..1], false), (&keys[..], true)] {
        let signer = Signer::es256_with(json!({"keys": keys}).to_string().as_bytes());
        let opened = Verifier::new(signer.file(), AUDIENCE, None);
        assert_eq!(opened.is_ok(), is_usable, "a set of a point off the curve");
    }
    let signer = Signer::es256();
    let verifier = verifier(&signer);
    let token = signer.sign(&Claims::of("alice"));
    let (message, _) = token.rsplit_once('.').unwrap();
    for bytes in [&[0; 64][..], &[0xff; 64], &[0; 63], &[0; 65], &[0; 1024]] {
        let forged = format!("{message}.{}", BASE64URL_NOPAD.encode(bytes));
        assert_eq!(verifier.verify(&forged), Err(Rejected::Forged));
    }
}

/// Sections 3.6, 3.11 and RFC 7515, section 4.1.11.
#[test]
fn a_header_may_demand_nothing_that_is_not_done() {
    let signer = Signer::es256();
    let verifier = verifier(&signer);
    let refused = |header: Value| {
        verifier
            .verify(&signer.sign_with(&header, &claims()))
            .is_err()
    };
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt", "AT+JWT"] {
        assert!(!refused(json!({"alg": "ES256", "typ": typ})), "{typ}");
    }
    assert!(!refused(json!({"alg": "ES256"})));
    for typ in ["dpop+jwt", "logout+jwt", "secevent+jwt", "JOSE", "", "jwt "] {
        assert!(refused(json!({"alg": "ES256", "typ": typ})), "{typ}");
    }
    let odd = [
        json!({"crit": ["exp"]}),
        json!({"crit": []}),
        json!({"crit": "exp"}),
        json!({"crit": null}),
        json!({"crit": ["b64"], "b64": false}),
        json!({"b64": false}),
        json!({"b64": null}),
        json!({"zip": "DEF"}),
        json!({"cty": "JWT"}),
        json!({"typ": 1}),
        json!({"kid": 1}),
        json!({"alg": 1}),
        json!({"alg": null}),
        json!({"alg": ["ES256"]}),
    ];
    for members in odd {
        let mut header = json!({"alg": "ES256"});
        for (name, value) in members.as_object().unwrap() {
            header[name] = value.clone();
        }
        assert!(refused(header), "{members}");
    }
    let twice = signer.sign_text(
        r#"{"alg":"none","alg":"ES256"}"#,
        claims().to_string().as_bytes(),
    );
    assert!(verifier.verify(&twice).is_err());
}

/// Section 3.10: a key that the token brings or points to is not looked at.
#[test]
fn a_token_cannot_bring_its_key() {
    let verifier = verifier(&Signer::eddsa());
    let signer = Signer::es256();
    for (name, value) in [
        ("jwk", p256_jwk(None)),
        ("jku", json!("http://127.0.0.1:9/jwks.json")),
        ("x5u", json!("http://127.0.0.1:9/cert.pem")),
        ("x5c", json!(["AAAA"])),
        ("kid", json!("../../../dev/null")),
        ("kid", json!("' OR 1=1 --")),
    ] {
        let mut header = json!({"alg": "ES256"});
        header[name] = value;
        let token = signer.sign_with(&header, &claims());
        assert!(verifier.verify(&token).is_err(), "{name}");
    }
}

/// Sections 3.8 and 3.9, and the claims of RFC 7519, section 4.1.
#[test]
fn each_claim_is_checked_for_its_type_and_value() {
    let signer = Signer::es256();
    let verifier = verifier(&signer);
    let header = json!({"alg": "ES256", "typ": "JWT"});
    let verdict = |claims: &Value| verifier.verify(&signer.sign_with(&header, claims));
    let now = now();
    let good = [
        with("aud", Some(json!([AUDIENCE]))),
        with("aud", Some(json!(["https://other.example", AUDIENCE]))),
        with("exp", Some(json!(now as f64 + 60.5))),
        with("exp", Some(json!(now - 50))),
        with("nbf", Some(json!(now + 50))),
        with("iat", Some(json!(now + 50))),
        with("iat", Some(json!(now - 1_000_000))),
        with("more", Some(json!({"a": [1]}))),
    ];
    for claims in &good {
        assert!(verdict(claims).is_ok(), "{claims}");
    }
    let bad = [
        ("exp", None),
        ("exp", Some(json!(now - 61))),
        ("exp", Some(json!(now.to_string()))),
        ("exp", Some(json!(-1))),
        ("exp", Some(json!(1e300))),
        ("exp", Some(json!(true))),
        ("exp", Some(json!(null))),
        ("nbf", Some(json!(now + 120))),
        ("nbf", Some(json!("soon"))),
        ("iat", Some(json!(now + 120))),
        ("iat", Some(json!("today"))),
        ("iat", Some(json!(null))),
        ("aud", None),
        ("aud", Some(json!(null))),
        ("aud", Some(json!([]))),
        ("aud", Some(json!(""))),
        ("aud", Some(json!([[AUDIENCE]]))),
        ("aud", Some(json!([AUDIENCE, 1]))),
        ("aud", Some(json!({"0": AUDIENCE}))),
        ("aud", Some(json!(format!("{AUDIENCE}/")))),
        ("aud", Some(json!(AUDIENCE.to_uppercase()))),
        ("iss", None),
        ("iss", Some(json!(null))),
        ("iss", Some(json!(""))),
        ("iss", Some(json!([ISSUER]))),
        ("iss", Some(json!(format!("{ISSUER}/")))),
        ("iss", Some(json!(format!("{ISSUER}.evil.example")))),
        ("sub", None),
        ("sub", Some(json!(null))),
        ("sub", Some(json!(""))),
        ("sub", Some(json!(7))),
        ("sub", Some(json!(["alice"]))),
        ("sub", Some(json!("x".repeat(257)))),
        ("sub", Some(json!("iss:https://issuer.example alice"))),
    ];
    for (name, value) in bad {
        let claims = with(name, value);
        assert!(verdict(&claims).is_err(), "{claims}");
    }
    let expired = verdict(&with("exp", Some(json!(now - 61))));
    assert_eq!(expired, Err(Rejected::Expired));
}

/// Section 3.7: JSON is UTF-8, and each member comes once.
#[test]
fn claims_are_json_in_utf8_with_each_member_once() {
    let signer = Signer::es256();
    let verifier = verifier(&signer);
    let header = r#"{"alg":"ES256"}"#;
    let good = claims().to_string();
    assert!(
        verifier
            .verify(&signer.sign_text(header, good.as_bytes()))
            .is_ok()
    );
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let bad = [
        utf16,
        good.replace("alice", "al\u{1}ice").into_bytes(),
        good.replace('}', r#","sub":"bob"}"#).into_bytes(),
        good.replace('}', r#","aud":"other"}"#).into_bytes(),
        [good.as_bytes(), b" x"].concat(),
        [&good.as_bytes()[..10], b"\xff", &good.as_bytes()[10..]].concat(),
        [&b"{\"more\":\"\xff\","[..], &good.as_bytes()[1..]].concat(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"".to_vec(),
        vec![b'['; 10_000],
    ];
    for claims in bad {
        let token = signer.sign_text(header, &claims);
        assert!(verifier.verify(&token).is_err(), "{claims:?}");
    }
    let marked = signer.sign_text("\u{feff}{\"alg\":\"ES256\"}", good.as_bytes());
    assert!(verifier.verify(&marked).is_err());
}

/// Of the compact form: three parts of base64url without padding, and no more than 16 KiB.
#[test]
fn a_token_has_three_parts_and_a_bound() {
    let signer = Signer::secret();
    let verifier = verifier(&signer);
    let token = signer.sign(&Claims::of("alice"));
    let parts: Vec<_> = token.split('.').collect();
    let bad = [
        parts[..2].join("."),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}="),
        format!("{token}\n"),
        format!(" {token}"),
        token.replace('.', ".."),
        format!("{}.{}", parts[0], parts.join(".")),
        String::new(),
        "..".to_owned(),
        "....".to_owned(),
    ];
    for bad in bad {
        assert!(verifier.verify(&bad).is_err(), "{bad}");
    }
    let padded = |bytes: usize| with("pad", Some(json!("x".repeat(bytes))));
    let header = json!({"alg": "HS256"});
    assert!(
        verifier
            .verify(&signer.sign_with(&header, &padded(8 << 10)))
            .is_ok()
    );
    assert!(
        verifier
            .verify(&signer.sign_with(&header, &padded(16 << 10)))
            .is_err()
    );
    assert!(verifier.verify(&"A".repeat(64 << 20)).is_err());
}
