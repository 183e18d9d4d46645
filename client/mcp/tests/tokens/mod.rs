//! Tokens, good and bad, and the key files that they are checked with.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The JWK of [`Signer::es256`]'s public key.
pub(crate) fn p256_jwk(id: Option<&str>) -> Value {
    let der = der("es256.pub.pem");
    let (x, y) = der[der.len() - 64..].split_at(32);
    let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let mut jwk = json!({"kty": "EC", "crv": "P-256", "x": part(x), "y": part(y)});
    if let Some(id) = id {
        jwk["kid"] = json!(id);
    }
    jwk
}

/// The JWK of a new key of the same kind, whose tokens it makes none.
pub(crate) fn new_p256_jwk(id: &str) -> Value {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let mut jwk = p256_jwk(Some(id));
    jwk["x"] = json!(BASE64URL_NOPAD.encode(x));
    jwk["y"] = json!(BASE64URL_NOPAD.encode(y));
    jwk
}

/// The server's name as clients know it.
pub(crate) const AUDIENCE: &str = "https://shop.example/mcp";
/// As `openssl rand -base64 32` writes it. The line itself is the secret.
pub(crate) const SECRET: &[u8] = b"gIGCg4SFhoeIiYqLjI2Oj5CRkpOUlZaXmJmam5ydnp8=";

/// A set with [`SECRET`], which its `kty` says to be one.
pub(crate) fn secret_set() -> String {
    json!({"keys": [{"kty": "oct", "k": BASE64URL_NOPAD.encode(SECRET)}]}).to_string()
}

const KEY_ID: &str = "of the set";

#[derive(Clone, Serialize)]
pub(crate) struct Claims {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sub: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aud: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iss: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nbf: Option<u64>,
}

impl Claims {
    /// What holds.
    pub(crate) fn of(subject: &str) -> Self {
        Self {
            sub: Some(subject.to_owned()),
            aud: Some(AUDIENCE.to_owned()),
            iss: Some("https://issuer.example".to_owned()),
            exp: Some(now() + 3600),
            nbf: None,
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

enum Key {
    Secret(hmac::Key),
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

impl Key {
    fn es256() -> Self {
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der("es256.pem"), &random);
        Self::Es256(pair.unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Secret(_) => "HS256",
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Secret(key) => hmac::sign(key, message).as_ref().to_vec(),
            Self::Es256(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::EdDsa(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Rs256(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .unwrap();
                signature
            }
        }
    }
}

/// An issuer, with the file that its tokens are checked with.
pub(crate) struct Signer {
    key: Key,
    id: Option<&'static str>,
    file: PathBuf,
    _directory: Option<TempDir>,
}

impl Signer {
    pub(crate) fn secret() -> Self {
        let key = Key::Secret(hmac::Key::new(hmac::HMAC_SHA256, SECRET));
        Self::with_file(key, secret_set().as_bytes())
    }

    pub(crate) fn es256() -> Self {
        Self::new(Key::es256(), keys().join("es256.pub.pem"))
    }

    pub(crate) fn eddsa() -> Self {
        // What openssl writes has no public key in it, which the strict reader wants.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der("eddsa.pem")).unwrap();
        Self::new(Key::EdDsa(pair), keys().join("eddsa.pub.pem"))
    }

    pub(crate) fn rs256() -> Self {
        let pair = RsaKeyPair::from_pkcs8(&der("rs256.pem")).unwrap();
        Self::new(Key::Rs256(pair), keys().join("rs256.pub.pem"))
    }

    /// An issuer with several keys, of which it uses the last.
    pub(crate) fn set() -> Self {
        let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let ed25519 = der("eddsa.pub.pem");
        let p256 = der("es256.pub.pem");
        let (x, y) = p256[p256.len() - 64..].split_at(32);
        let pair = RsaKeyPair::from_pkcs8(&der("rs256.pem")).unwrap();
        let RsaPublicKeyComponents { n, e } =
            RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
        let set = json!({"keys": [
            {"kty": "RSA", "kid": KEY_ID, "use": "enc", "n": part(&n), "e": part(&e)},
            {"kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": part(&n), "e": part(&e)},
            {"kty": "OKP", "kid": "okp", "crv": "Ed25519", "x": part(&ed25519[ed25519.len() - 32..])},
            {"kty": "EC", "kid": KEY_ID, "crv": "P-256", "x": part(x), "y": part(y)},
        ]});
        let mut signer = Self::with_file(Key::es256(), set.to_string().as_bytes());
        signer.id = Some(KEY_ID);
        signer
    }

    /// The issuer of [`es256`](Self::es256), with another file.
    pub(crate) fn es256_with(content: &[u8]) -> Self {
        Self::with_file(Key::es256(), content)
    }

    /// Knows these bytes, without a file.
    pub(crate) fn shared(secret: &[u8]) -> Self {
        Self::new(
            Key::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)),
            PathBuf::new(),
        )
    }

    fn with_file(key: Key, content: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("keys");
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let mut signer = Self::new(key, file);
        signer._directory = Some(directory);
        signer
    }

    fn new(key: Key, file: PathBuf) -> Self {
        Self {
            key,
            id: None,
            file,
            _directory: None,
        }
    }

    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let mut header = json!({"alg": self.key.algorithm(), "typ": "JWT"});
        if let Some(id) = self.id {
            header["kid"] = json!(id);
        }
        self.sign_with(&header, claims)
    }

    /// A token with this header, whatever the key.
    pub(crate) fn sign_with(&self, header: &Value, claims: &impl Serialize) -> String {
        self.sign_text(&header.to_string(), &serde_json::to_vec(claims).unwrap())
    }

    /// A token of this header and these claims, JSON or not.
    pub(crate) fn sign_text(&self, header: &str, claims: &[u8]) -> String {
        let part = |text: &[u8]| BASE64URL_NOPAD.encode(text);
        let message = format!("{}.{}", part(header.as_bytes()), part(claims));
        let signature = part(&self.key.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The key's kind.
    pub(crate) fn name(&self) -> &'static str {
        self.key.algorithm()
    }
}

fn message(header: &Value, claims: &Claims) -> String {
    let part = |json: String| BASE64URL_NOPAD.encode(json.as_bytes());
    let claims = serde_json::to_string(claims).unwrap();
    format!("{}.{}", part(header.to_string()), part(claims))
}

/// A token of the algorithm `none`.
pub(crate) fn unsigned() -> String {
    format!(
        "{}.",
        message(&json!({"alg": "none"}), &Claims::of("alice"))
    )
}

/// A token signed with the public key of [`Signer::es256`] as if that were a shared secret.
pub(crate) fn confused() -> String {
    let public = fs::read(keys().join("es256.pub.pem")).unwrap();
    let key = Key::Secret(hmac::Key::new(hmac::HMAC_SHA256, &public));
    Signer::new(key, PathBuf::new()).sign(&Claims::of("alice"))
}

pub(crate) fn keys() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys")
}

/// What a PEM file holds.
pub(crate) fn der(name: &str) -> Vec<u8> {
    let pem = fs::read_to_string(keys().join(name)).unwrap();
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    BASE64.decode(lines.collect::<String>().as_bytes()).unwrap()
}
