//! Several issuers: whose a subject is, and which keys may say so.

#![allow(clippy::unwrap_used)]

#[path = "../../src/properties.rs"]
mod properties;
#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use std::{cell::RefCell, collections::BTreeMap};

use helve_mcp::bearer::{KeySource, Owners, Rejected, TrustError, Trusted, Verifier};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    properties::check,
    tokens::{AUDIENCE, Claims, Signer, new_p256_jwk},
};

const A: &str = "https://a.example";
const B: &str = "https://b.example";

fn trusted(issuer: Option<&str>, signer: &Signer, owners: Owners) -> Trusted {
    Trusted {
        issuer: issuer.map(str::to_owned),
        keys: vec![KeySource::File(signer.file().to_owned())],
        owners,
    }
}

async fn two(a: Owners, b: Owners) -> (Verifier, Signer, Signer) {
    let (of_a, of_b) = (Signer::es256(), Signer::eddsa());
    let all = vec![trusted(Some(A), &of_a, a), trusted(Some(B), &of_b, b)];
    (Verifier::open(all, AUDIENCE).await.unwrap(), of_a, of_b)
}

fn claims(issuer: Option<&str>, subject: &str) -> Claims {
    Claims {
        iss: issuer.map(str::to_owned),
        ..Claims::of(subject)
    }
}

#[tokio::test]
async fn a_subject_of_one_issuer_is_no_subject_of_another() {
    let (verifier, of_a, of_b) = two(Owners::Plain, Owners::Qualified).await;
    let a = verifier
        .verify(&of_a.sign(&claims(Some(A), "1001")))
        .unwrap();
    let b = verifier
        .verify(&of_b.sign(&claims(Some(B), "1001")))
        .unwrap();
    // What the first issuer's subjects stored while it was alone stays theirs.
    assert_eq!(
        (a.owner(), a.subject(), a.issuer()),
        ("1001", "1001", Some(A))
    );
    assert_eq!(b.owner(), "iss:https://b.example 1001");
    assert_eq!((b.subject(), b.issuer()), ("1001", Some(B)));
    let (verifier, of_a, of_b) = two(Owners::Qualified, Owners::Qualified).await;
    let a = verifier
        .verify(&of_a.sign(&claims(Some(A), "1001")))
        .unwrap();
    assert_eq!(a.owner(), "iss:https://a.example 1001");
    assert!(
        verifier
            .verify(&of_b.sign(&claims(Some(B), "1001")))
            .is_ok()
    );
}

#[tokio::test]
async fn an_issuers_key_signs_for_no_other_and_none_is_no_issuer() {
    let (verifier, of_a, of_b) = two(Owners::Plain, Owners::Qualified).await;
    let verdict = |signer: &Signer, issuer| verifier.verify(&signer.sign(&claims(issuer, "1001")));
    assert!(verdict(&of_a, Some(B)).is_err());
    assert!(verdict(&of_b, Some(A)).is_err());
    for issuer in [
        None,
        Some(""),
        Some("https://c.example"),
        Some("https://a.example/"),
    ] {
        assert_eq!(verdict(&of_a, issuer), Err(Rejected::Issuer), "{issuer:?}");
    }
    let listed = json!({"alg": "ES256"});
    let mut both: Value = serde_json::to_value(claims(Some(A), "1001")).unwrap();
    both["iss"] = json!([A, B]);
    assert!(verifier.verify(&of_a.sign_with(&listed, &both)).is_err());
}

#[tokio::test]
async fn issuers_that_could_not_be_told_apart_are_refused() {
    let signer = Signer::es256();
    let one = |issuer, owners| trusted(issuer, &signer, owners);
    let bare = Trusted {
        keys: vec![],
        ..one(Some(A), Owners::Plain)
    };
    let bad = [
        vec![],
        vec![bare],
        vec![one(None, Owners::Plain), one(Some(A), Owners::Qualified)],
        vec![one(None, Owners::Qualified)],
        vec![one(Some(A), Owners::Plain), one(Some(B), Owners::Plain)],
        vec![one(Some(A), Owners::Plain), one(Some(A), Owners::Qualified)],
        vec![one(Some(""), Owners::Plain)],
        vec![one(Some("https://a.example b"), Owners::Qualified)],
        vec![one(Some("https://a.example\u{a0}"), Owners::Qualified)],
        vec![one(Some("https://a.example\n"), Owners::Qualified)],
    ];
    for trusted in bad {
        let said = format!("{trusted:?}");
        let refused: Result<_, TrustError> = Verifier::open(trusted, AUDIENCE).await;
        assert!(refused.is_err(), "{said}");
    }
}

/// No subject, however it is spelled, makes an owner that another issuer's subject has.
#[tokio::test]
async fn owners_of_two_issuers_are_never_the_same() {
    let (verifier, of_a, of_b) = two(Owners::Plain, Owners::Qualified).await;
    let crafted = [
        "iss:https://b.example 1001",
        "iss:https://a.example 1001",
        "iss:",
        "iss: x",
    ];
    for subject in crafted {
        for (signer, issuer) in [(&of_a, A), (&of_b, B)] {
            let refused = verifier.verify(&signer.sign(&claims(Some(issuer), subject)));
            assert_eq!(refused, Err(Rejected::Subject), "{subject}");
        }
    }
    let long = "x".repeat(256 - "iss:https://b.example ".len());
    assert!(verifier.verify(&of_b.sign(&claims(Some(B), &long))).is_ok());
    let refused = verifier.verify(&of_b.sign(&claims(Some(B), &format!("{long}x"))));
    assert_eq!(refused, Err(Rejected::Subject));
}

#[test]
fn each_principal_has_an_owner_of_its_own() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Names that begin alike, and subjects that spell names.
    let names = ["a", "a:b", "a%20b", "iss:a"];
    let signers = names.map(|_| Signer::secret());
    let all = names
        .iter()
        .zip(&signers)
        .enumerate()
        .map(|(at, (name, signer))| {
            let owners = if at == 0 {
                Owners::Plain
            } else {
                Owners::Qualified
            };
            trusted(Some(name), signer, owners)
        });
    let verifier = runtime
        .block_on(Verifier::open(all.collect(), AUDIENCE))
        .unwrap();
    let subject = prop_oneof![
        "[iss: ab%20]{1,12}",
        "(iss:)?(a|a:b|iss:a)( |%20)?(a|b)?",
        "\\PC{1,8}",
    ];
    let seen: RefCell<BTreeMap<String, (usize, String)>> = RefCell::default();
    check(&(0..names.len(), subject), |(at, subject)| {
        let token = signers[at].sign(&claims(Some(names[at]), &subject));
        if let Ok(principal) = runtime.block_on(verifier.check(&token)) {
            let who = (at, subject);
            let mut seen = seen.borrow_mut();
            let known = seen.entry(principal.owner().to_owned());
            let known = known.or_insert_with(|| who.clone());
            prop_assert_eq!(&*known, &who);
        }
        Ok(())
    });
}

#[tokio::test]
async fn an_issuers_sources_together_have_no_more_keys_than_are_tried() {
    let with_five = || {
        let keys: Vec<_> = (0..5).map(|_| new_p256_jwk("same")).collect();
        Signer::es256_with(json!({ "keys": keys }).to_string().as_bytes())
    };
    let (signer, another) = (with_five(), with_five());
    let mut one = trusted(Some(A), &signer, Owners::Plain);
    let open = |one: Trusted| Verifier::open(vec![one], AUDIENCE);
    assert!(open(one.clone()).await.is_ok());
    one.keys.push(KeySource::File(signer.file().to_owned()));
    assert!(open(one.clone()).await.is_ok(), "the same five");
    one.keys.push(KeySource::File(another.file().to_owned()));
    let refused = open(one).await.unwrap_err();
    assert!(matches!(refused, TrustError::Alike(_)), "{refused}");
    assert!(
        refused.to_string().contains("10 keys for ES256"),
        "{refused}"
    );
}

#[test]
fn every_kind_of_key_verifies_its_own_tokens_and_no_others() {
    let signers = || {
        [
            Signer::secret(),
            Signer::es256(),
            Signer::eddsa(),
            Signer::rs256(),
            Signer::set(),
        ]
    };
    for signer in signers() {
        let verifier = Verifier::new(signer.file(), AUDIENCE, None).unwrap();
        let principal = verifier.verify(&signer.sign(&Claims::of("alice"))).unwrap();
        assert_eq!(principal.subject(), "alice");
        for other in signers()
            .iter()
            .filter(|other| other.name() != signer.name())
        {
            let token = other.sign(&Claims::of("alice"));
            assert!(
                verifier.verify(&token).is_err(),
                "{} took {}'s",
                signer.name(),
                other.name()
            );
        }
    }
}
