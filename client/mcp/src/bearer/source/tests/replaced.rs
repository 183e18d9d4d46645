//! A key that another one replaces under its own id, or where there are no ids.

use data_encoding::BASE64URL_NOPAD;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};

use super::*;

/// A key of the same kind that signs nothing here.
fn other_jwk(id: Option<&str>) -> Value {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let mut jwk =
        json!({"kty": "EC", "crv": "P-256", "x": part(&point[1..33]), "y": part(&point[33..])});
    if let Some(id) = id {
        jwk["kid"] = json!(id);
    }
    jwk
}

fn token_of(id: Option<&str>) -> String {
    let mut header = json!({"alg": "ES256"});
    if let Some(id) = id {
        header["kid"] = json!(id);
    }
    Signer::es256().sign_with(&header, &Claims::of("alice"))
}

#[tokio::test]
async fn key_that_replaced_another_is_fetched_for_its_first_token() {
    for id in [Some("same"), None] {
        let issuing = Issuing::serve(set(&[other_jwk(id)])).await;
        let verifier = issuing.open(ON_DEMAND).await.unwrap();
        let token = token_of(id);
        assert_eq!(
            verifier.check(&token).await,
            Err(Rejected::Forged),
            "{id:?}"
        );
        issuing.now_answers(StatusCode::OK, set(&[p256_jwk(id)]));
        assert!(verifier.check(&token).await.is_ok(), "{id:?}");
    }
}

#[tokio::test]
async fn forged_tokens_cause_no_more_than_one_fetch_in_a_pause() {
    let issuing = Issuing::serve(set(&[other_jwk(None)])).await;
    let long = Pace {
        fetch_pause: Duration::from_secs(86_400),
        ..ON_DEMAND
    };
    let verifier = issuing.open(long).await.unwrap();
    for _ in 0..50 {
        assert_eq!(verifier.check(&token_of(None)).await, Err(Rejected::Forged));
    }
    assert_eq!(issuing.asked(), 1, "the one of the start");
}
