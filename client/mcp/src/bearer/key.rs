//! A key that tokens are checked with, and the one algorithm that it is for.

use std::ops::RangeInclusive;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use helve_seal::Looks;
use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use ring::{
    agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral},
    rand::SystemRandom,
};
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, models::ObjectIdentifier};

use super::secret_form;

/// Bytes of a shared secret: as many as HMAC-SHA256 puts out (RFC 7518, section 3.2).
pub(super) const SECRET_BYTES_MIN: usize = 32;
/// Different byte values that an `oct` secret of a set must have at least. Hexadecimal ones have more.
const SECRET_DIFFERENT_MIN: usize = 6;
/// Bytes of a coordinate on P-256, and of an Ed25519 key.
const COORDINATE_BYTES: usize = 32;
/// Bytes of an RSA modulus: 2048 bits (RFC 7518, section 3.3) to as many as ring takes.
const MODULUS_BYTES: RangeInclusive<usize> = 256..=1024;
/// What the modulus' first byte must be if it has 256 bytes: then it has 2048 bits. In the
/// last byte of an Ed25519 key it is the sign.
const TOP_BIT: u8 = 0x80;
/// Bytes of an RSA exponent, as many as ring takes.
const EXPONENT_BYTES: RangeInclusive<usize> = 1..=5;
/// Bytes of a key's id.
const ID_BYTES_MAX: usize = 256;
/// Members of a JWK that make it private (RFC 7518, sections 6.2.2 and 6.3.2; RFC 8037).
const PRIVATE: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];
/// Encodings of all Ed25519 points whose order divides 8, non-canonical ones included, with the sign
/// bit cleared.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];
/// The object identifiers of RFC 3279, RFC 5480 and RFC 8410.
const RSA: [u64; 7] = [1, 2, 840, 113_549, 1, 1, 1];
const EC: [u64; 6] = [1, 2, 840, 10_045, 2, 1];
const P256: [u64; 7] = [1, 2, 840, 10_045, 3, 1, 7];
const ED25519: [u64; 4] = [1, 3, 101, 112];

/// Where keys come from: what anybody may read must hold no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file of this machine.
    File,
    /// A URL.
    Url,
}

/// A key. Its kind pins the algorithm; a token never chooses it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
}

impl Key {
    fn new(algorithm: Algorithm, decoding: DecodingKey) -> Self {
        Self {
            id: None,
            algorithm,
            decoding,
        }
    }

    /// Whether it is the same key under the same id: another source of an issuer may hold it, too.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_alike = (&self.id, self.algorithm) == (&other.id, other.algorithm);
        is_alike
            && match (self.decoding.kind(), other.decoding.kind()) {
                (DecodingKeyKind::SecretOrDer(one), DecodingKeyKind::SecretOrDer(another)) => {
                    one == another
                }
                (
                    DecodingKeyKind::RsaModulusExponent { n, e },
                    DecodingKeyKind::RsaModulusExponent {
                        n: modulus,
                        e: exponent,
                    },
                ) => (n, e) == (modulus, exponent),
                _ => false,
            }
    }

    /// A shared secret, which the caller has checked.
    pub(super) fn shared(secret: &[u8]) -> Self {
        Self::new(Algorithm::HS256, DecodingKey::from_secret(secret))
    }

    fn p256(point: &[u8]) -> Result<Self, &'static str> {
        match point {
            // Uncompressed, as RFC 5480 says.
            [4, rest @ ..] if rest.len() == 2 * COORDINATE_BYTES && is_on_p256(point) => {
                Ok(Self::new(Algorithm::ES256, DecodingKey::from_ec_der(point)))
            }
            _ => Err("its point is not one on P-256"),
        }
    }

    fn ed25519(key: &[u8]) -> Result<Self, &'static str> {
        if key.len() != COORDINATE_BYTES {
            return Err("an Ed25519 key has 32 bytes");
        }
        if is_of_small_order(key) {
            return Err(
                "its point has a small order: anybody can sign under it without a private key",
            );
        }
        Ok(Self::new(Algorithm::EdDSA, DecodingKey::from_ed_der(key)))
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, &'static str> {
        let (n, e) = (significant(modulus), significant(exponent));
        let is_weak = n.len() == *MODULUS_BYTES.start() && n[0] < TOP_BIT;
        if is_weak || !MODULUS_BYTES.contains(&n.len()) {
            return Err("an RSA key has 2048 to 8192 bits");
        }
        if n.last().is_none_or(|byte| byte % 2 == 0) {
            return Err("its RSA modulus is even");
        }
        let is_odd = e.last().is_some_and(|byte| byte % 2 == 1);
        if !is_odd || e == [1] || !EXPONENT_BYTES.contains(&e.len()) {
            return Err("its RSA exponent is not an odd number from 3 to 2^33");
        }
        let decoding = DecodingKey::from_rsa_raw_components(n, e);
        Ok(Self::new(Algorithm::RS256, decoding))
    }

    /// The key in a `SubjectPublicKeyInfo` (RFC 5280, section 4.1).
    pub(super) fn of_spki(der: &[u8]) -> Result<Self, &'static str> {
        enum Kind {
            Rsa,
            P256,
            Ed25519,
        }
        let parsed = yasna::parse_der(der, |reader| {
            reader.read_sequence(|reader| {
                let kind = reader.next().read_sequence(|reader| {
                    let algorithm = reader.next().read_oid()?;
                    let is = |oid: &[u64]| algorithm == ObjectIdentifier::new(oid.to_vec());
                    if is(&RSA) {
                        reader.next().read_null()?;
                        Ok(Kind::Rsa)
                    } else if is(&EC) && reader.next().read_oid()? == curve() {
                        Ok(Kind::P256)
                    } else if is(&ED25519) {
                        Ok(Kind::Ed25519)
                    } else {
                        Err(ASN1Error::new(ASN1ErrorKind::Invalid))
                    }
                })?;
                Ok((kind, reader.next().read_bitvec_bytes()?))
            })
        });
        let usable = "it is not on P-256, of Ed25519 or of RSA";
        let (kind, (bytes, _)) = parsed.map_err(|_| usable)?;
        match kind {
            Kind::P256 => Self::p256(&bytes),
            Kind::Ed25519 => Self::ed25519(&bytes),
            Kind::Rsa => {
                let (n, e) = yasna::parse_der(&bytes, rsa_numbers).map_err(|_| usable)?;
                Self::rsa(&n, &e)
            }
        }
    }

    /// The key of a JWK (RFC 7517), or why it cannot be used.
    pub(super) fn of_jwk(entry: &serde_json::Value, from: Origin) -> Result<Self, &'static str> {
        if PRIVATE.iter().any(|name| entry.get(name).is_some()) {
            return Err("it is a private key: a reader of this can sign tokens with it");
        }
        let jwk: Jwk = serde_json::from_value(entry.clone())
            .map_err(|_| "a member is missing or of another type than RFC 7517 says")?;
        if !is_for_signatures(&jwk) {
            return Err("it is not for checking signatures");
        }
        let bytes = |field: &str| {
            let decoded = BASE64URL_NOPAD.decode(field.trim_end_matches('=').as_bytes());
            decoded.map_err(|_| "a member is not base64url")
        };
        let mut key = match &jwk.algorithm {
            AlgorithmParameters::EllipticCurve(of) if of.curve == EllipticCurve::P256 => {
                let (x, y) = (bytes(&of.x)?, bytes(&of.y)?);
                if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
                    return Err("a coordinate on P-256 has 32 bytes");
                }
                Self::p256(&[&[4][..], &x, &y].concat())?
            }
            AlgorithmParameters::OctetKeyPair(of) if of.curve == EllipticCurve::Ed25519 => {
                Self::ed25519(&bytes(&of.x)?)?
            }
            AlgorithmParameters::RSA(of) => Self::rsa(&bytes(&of.n)?, &bytes(&of.e)?)?,
            AlgorithmParameters::OctetKey(_) if from == Origin::Url => {
                return Err("it is a secret, known to all who know the URL");
            }
            AlgorithmParameters::OctetKey(of) => {
                let secret = bytes(&of.value)?;
                if secret.len() < SECRET_BYTES_MIN {
                    return Err("a secret has 32 bytes or more");
                }
                if Looks::public_in(&secret).is_some() || is_on_p256(&secret) {
                    return Err("it is said to be a secret, and holds what may be public");
                }
                if secret_form::different(&secret) < SECRET_DIFFERENT_MIN {
                    return Err("its secret repeats a few bytes, and can be guessed");
                }
                Self::shared(&secret)
            }
            _ => return Err("it is not on P-256, of Ed25519, of RSA or a secret"),
        };
        if let Some(algorithm) = jwk.common.key_algorithm
            && algorithm != KeyAlgorithm::from(key.algorithm)
        {
            return Err("its `alg` is not RS256, ES256, EdDSA or HS256, as its kind demands");
        }
        if jwk
            .common
            .key_id
            .as_ref()
            .is_some_and(|id| id.len() > ID_BYTES_MAX)
        {
            return Err("its `kid` is over 256 bytes");
        }
        key.id = jwk.common.key_id;
        Ok(key)
    }
}

/// Whether the order of this Ed25519 point divides 8. Anybody can make a signature under such a key
/// that ring accepts.
fn is_of_small_order(key: &[u8]) -> bool {
    // Which sign the other coordinate has does not matter here.
    let Some((last, rest)) = key.split_last() else {
        return false;
    };
    let unsigned = HEXLOWER.encode(&[rest, &[last & !TOP_BIT]].concat());
    SMALL_ORDER.contains(&&*unsigned)
}

/// Whether the point is on the curve: under another one no signature holds. Ring says so only
/// where it agrees on a secret with the owner of the point.
fn is_on_p256(point: &[u8]) -> bool {
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new());
    let theirs = UnparsedPublicKey::new(&ECDH_P256, point);
    ours.is_ok_and(|ours| agree_ephemeral(ours, &theirs, |_| ()).is_ok())
}

fn curve() -> ObjectIdentifier {
    ObjectIdentifier::new(P256.to_vec())
}

/// The modulus and the exponent of an `RSAPublicKey` (RFC 8017, appendix A.1.1).
fn rsa_numbers(reader: BERReader<'_, '_>) -> ASN1Result<(Vec<u8>, Vec<u8>)> {
    let positive = |(bytes, is_positive)| match is_positive {
        true => Ok(bytes),
        false => Err(ASN1Error::new(ASN1ErrorKind::Invalid)),
    };
    reader.read_sequence(|reader| {
        let n = positive(reader.next().read_bigint_bytes()?)?;
        Ok((n, positive(reader.next().read_bigint_bytes()?)?))
    })
}

/// Without leading zeros, which some issuers write.
fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

fn is_for_signatures(jwk: &Jwk) -> bool {
    let operations = jwk.common.key_operations.as_ref();
    matches!(
        jwk.common.public_key_use,
        None | Some(PublicKeyUse::Signature)
    ) && operations.is_none_or(|all| all.contains(&KeyOperations::Verify))
}
