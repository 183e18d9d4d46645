//! Our own form of a sealed state.
//!
//! ```text
//! sealed  = "h1." base64url( key id [8] · salt [12] · nonce [12] · AES-256-GCM( claims ) · tag [16] )
//! claims  = 1 [1] · issued at [8] · expires at [8] · five bindings [16 each] · state
//! binding = HMAC-SHA256( binding key, part · presence · value )[..16]     subject, audience, method, target, arguments
//! ```
//! Times are milliseconds since the Unix epoch, big-endian. The associated data is `helve request-state h1`, key id and salt. All
//! keys are HKDF-SHA256 of the ring's key, each with an `info` of its own, and the one that seals also of the salt, after C2SP's
//! XAES-256-GCM: with 192 random bits, replicas that share a key need not count what they seal.
//!
//! Of the claims' integrity the bindings are no part: they are tags under another key, which only tell a log which part differs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use helve_client::Error;

use super::{
    bounds::{CLOCK_SKEW_MAX, SEALED_BYTES_MAX, STATE_TTL, check_state_size, check_ttl},
    codec::{Opened, StateCodec, state_id, wall_ms},
    context::StateContext,
    keys::{BINDING_BYTES, KEY_ID_BYTES, KeyId, SealingKey, StateKeys, same},
    primitives::{NONCE_BYTES, TAG_BYTES, base64, from_base64, gcm_open, gcm_seal, random},
    refusal::Refusal,
};

const PREFIX: &str = "h1.";
const DOMAIN: &[u8] = b"helve request-state h1";
const CLAIMS: u8 = 1;
const SALT_BYTES: usize = 12;
pub(super) const RANDOM_BYTES: usize = SALT_BYTES + NONCE_BYTES;
const PARTS: usize = 5;

/// Seals and opens the form `h1.`.
pub struct HardenedCodec {
    keys: Arc<dyn StateKeys>,
    ttl: Duration,
    now_ms: fn() -> u64,
}

/// What a sealed state holds beside the state itself.
struct Claims {
    issued_at_ms: u64,
    expires_at_ms: u64,
}

impl HardenedCodec {
    /// States under these keys, redeemable for [`STATE_TTL`].
    #[must_use]
    pub fn new(keys: Arc<dyn StateKeys>) -> Self {
        Self {
            keys,
            ttl: STATE_TTL,
            now_ms: wall_ms,
        }
    }

    /// How long a state may be redeemed: 1 s to [`STATE_TTL_MAX`](super::STATE_TTL_MAX).
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) beyond these bounds.
    pub fn ttl(mut self, ttl: Duration) -> Result<Self, Error> {
        check_ttl(ttl)?;
        self.ttl = ttl;
        Ok(self)
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn at(mut self, now_ms: fn() -> u64) -> Self {
        self.now_ms = now_ms;
        self
    }
}

#[async_trait]
impl StateCodec for HardenedCodec {
    async fn encode(&self, state: &str, context: &StateContext<'_>) -> Result<String, Error> {
        check_state_size(state)?;
        let key = self.keys.active().await?;
        let issued_at_ms = (self.now_ms)();
        let claims = Claims {
            issued_at_ms,
            expires_at_ms: issued_at_ms + millis(self.ttl),
        };
        Ok(seal(&key, random()?, &claims, state, context))
    }

    async fn decode(&self, sealed: &str, context: &StateContext<'_>) -> Result<Opened, Refusal> {
        let parts = Parts::of(sealed)?;
        let key = match self.keys.find(parts.key_id).await {
            Ok(Some(key)) => key,
            Ok(None) => return Err(Refusal::UnknownKey),
            Err(error) => return Err(Refusal::Unavailable(error)),
        };
        let (claims, state) = parts.open(&key, (self.now_ms)(), context)?;
        Ok(Opened {
            state,
            issued_at_ms: Some(claims.issued_at_ms),
            expires_at_ms: claims.expires_at_ms,
            id: state_id(sealed),
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn seal(
    key: &SealingKey,
    random: [u8; RANDOM_BYTES],
    claims: &Claims,
    state: &str,
    context: &StateContext<'_>,
) -> String {
    let mut plain = vec![CLAIMS];
    plain.extend(claims.issued_at_ms.to_be_bytes());
    plain.extend(claims.expires_at_ms.to_be_bytes());
    for (_, binding) in bindings(key, context) {
        plain.extend(binding);
    }
    plain.extend(state.as_bytes());
    seal_plain(key, random, &plain)
}

/// Seals claims and state as they are written, whatever they are.
pub(super) fn seal_plain(key: &SealingKey, random: [u8; RANDOM_BYTES], plain: &[u8]) -> String {
    let (salt, nonce) = random.split_at(SALT_BYTES);
    let nonce = nonce.try_into().expect("the rest is a nonce");
    let associated = [DOMAIN, key.id().bytes(), salt].concat();
    let ciphertext = gcm_seal(&key.for_one(salt), nonce, &associated, plain);
    let blob = [key.id().bytes(), &random[..], &ciphertext].concat();
    format!("{PREFIX}{}", base64(&blob))
}

/// What binds each part of a context, and how to refuse another.
fn bindings(
    key: &SealingKey,
    context: &StateContext<'_>,
) -> [(Refusal, [u8; BINDING_BYTES]); PARTS] {
    let bind = |part, value: Option<&str>| key.bind(part, value.map(str::as_bytes));
    let arguments = context.arguments.as_ref();
    [
        (Refusal::Subject, bind(b's', context.subject)),
        (Refusal::Audience, bind(b'u', context.audience)),
        (Refusal::Method, bind(b'm', context.method)),
        (Refusal::Target, bind(b't', context.target)),
        (
            Refusal::Arguments,
            key.bind(b'a', arguments.map(super::context::ArgumentsDigest::bytes)),
        ),
    ]
}

/// A sealed state taken apart.
struct Parts {
    key_id: KeyId,
    salt: [u8; SALT_BYTES],
    nonce: [u8; NONCE_BYTES],
    ciphertext: Vec<u8>,
}

impl Parts {
    fn of(sealed: &str) -> Result<Self, Refusal> {
        if sealed.len() > SEALED_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let text = sealed.strip_prefix(PREFIX).ok_or(Refusal::Form)?;
        let blob = from_base64(text).ok_or(Refusal::Malformed)?;
        let rest = blob.as_slice();
        let (key_id, rest) = taken::<KEY_ID_BYTES>(rest)?;
        let (salt, rest) = taken(rest)?;
        let (nonce, rest) = taken(rest)?;
        if rest.len() < TAG_BYTES {
            return Err(Refusal::Malformed);
        }
        Ok(Self {
            key_id: KeyId::from_bytes(key_id),
            salt,
            nonce,
            ciphertext: rest.to_vec(),
        })
    }

    fn open(
        &self,
        key: &SealingKey,
        now_ms: u64,
        context: &StateContext<'_>,
    ) -> Result<(Claims, String), Refusal> {
        let associated = [DOMAIN, self.key_id.bytes(), &self.salt].concat();
        let one = key.for_one(&self.salt);
        let plain = gcm_open(&one, self.nonce, &associated, &self.ciphertext);
        let plain = plain.ok_or(Refusal::Forged)?;
        // What follows was sealed by a holder of the key: its failures are a replica's of another version, not a client's.
        let ([version], rest) = taken(&plain)?;
        if version != CLAIMS {
            return Err(Refusal::Form);
        }
        let (issued_at, rest) = taken(rest)?;
        let (expires_at, mut rest) = taken(rest)?;
        let claims = Claims {
            issued_at_ms: u64::from_be_bytes(issued_at),
            expires_at_ms: u64::from_be_bytes(expires_at),
        };
        for (refusal, expected) in bindings(key, context) {
            let (claimed, behind) = taken::<BINDING_BYTES>(rest)?;
            if !same(&claimed, &expected) {
                return Err(refusal);
            }
            rest = behind;
        }
        if now_ms >= claims.expires_at_ms {
            return Err(Refusal::Expired);
        }
        if claims.issued_at_ms > now_ms.saturating_add(millis(CLOCK_SKEW_MAX)) {
            return Err(Refusal::NotYet);
        }
        let state = std::str::from_utf8(rest).map_err(|_| Refusal::Malformed)?;
        Ok((claims, state.to_owned()))
    }
}

fn taken<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), Refusal> {
    let (head, rest) = bytes.split_first_chunk().ok_or(Refusal::Malformed)?;
    Ok((*head, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_codec::{ArgumentsDigest, OperatorKey};

    /// The vector was made by another implementation, in another language, from the description at the top of this file.
    #[test]
    fn the_form_is_the_one_described() {
        let key: Vec<u8> = (0..32).collect();
        let key = SealingKey::new(&OperatorKey::new(key).unwrap());
        let random = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let claims = Claims {
            issued_at_ms: 1_899_999_700_000,
            expires_at_ms: 1_900_000_000_000,
        };
        let arguments = serde_json::json!({"order": 7});
        let context = StateContext::new()
            .subject("alice")
            .audience("shop")
            .method("tools/call")
            .target("refund")
            .arguments(ArgumentsDigest::of(&arguments));
        let sealed = seal(&key, random, &claims, r#"{"step":1}"#, &context);
        assert_eq!(key.id().to_string(), KEY_ID);
        assert_eq!(sealed, SEALED);
        let bare = seal(&key, random, &claims, "", &StateContext::new());
        assert_eq!(bare, BARE);
    }

    const KEY_ID: &str = "207437f229210c67";
    const SEALED: &str = "h1.IHQ38ikhDGcAAQIDBAUGBwgJCgsMDQ4PEBESExQVFheThSB2C2QWCbO7AERHq2MU4g7cc1HnZpBxyEbS9Iy3MEyFtTvr7Uhzv2pgZHxhxso5lrJuIJ3SpI3P93rwKA4c51BQ3zNOoHeHQ1A7Q-hml70PcSOZDgjbSWZSQEduVgpkDhrtMIYR6YYPF2hUGCA6uhKC_h4twCwRl6Q";
    const BARE: &str = "h1.IHQ38ikhDGcAAQIDBAUGBwgJCgsMDQ4PEBESExQVFheThSB2C2QWCbO7AERHq2MU4gQCXE_rr7m2BDjBivkaldCsocxXecW--byqeZpa6japDsGSz7s4p0W8pBQDFgxM9M0mZfHPs18fiIL60EeeHhafdKgCOnXfo8_jzJKC-xDF8tOf_tPNY9icwY-zzVt0yw";
}
