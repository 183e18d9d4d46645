//! The forms of mcp.d's `mcp.server.request_state`, byte for byte.
//!
//! ```text
//! payload = {"s":state,"exp":unix seconds,"b":binding}
//! v1      = "v1."  base64url( payload ) "." base64url( HMAC-SHA256( mac key, payload ) )
//! v1e     = "v1e." base64url( nonce [12] · AES-256-GCM( payload ) · tag [16] )            associated data: the binding
//! binding = hex( HMAC-SHA256( mac key, material ) )        material: nothing, subject, or subject NUL tool
//! ```

use std::{fmt, time::Duration};

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use helve_client::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use super::{
    bounds::{SEALED_BYTES_MAX, STATE_TTL, check_state_size, check_ttl},
    codec::{Opened, StateCodec, state_id, wall_ms},
    context::StateContext,
    key::OperatorKey,
    keys::same,
    primitives::{
        Key, NONCE_BYTES, base64, derive, from_base64, gcm_open, gcm_seal, hmac, hmac_holds, random,
    },
    refusal::Refusal,
};

const SIGNED: &str = "v1.";
const ENCRYPTED: &str = "v1e.";
/// The original binds reads of resources to no tool.
const RESOURCES_READ: &str = "resources/read";

/// How the state is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateMode {
    /// HMAC-SHA256: clients can read it, and cannot change it.
    #[default]
    Signed,
    /// AES-256-GCM: clients cannot read it either.
    Encrypted,
}

/// What a state is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateBinding {
    /// Nothing: any holder may redeem it.
    None,
    /// The context's subject. Without one, and so without authentication, nothing.
    #[default]
    Subject,
    /// The subject, and the tool or prompt.
    SubjectAndTool,
}

/// Seals and opens the forms `v1.` and `v1e.`, to share states with servers that use mcp.d. Where there are none, take
/// [`HardenedCodec`](super::HardenedCodec): these forms know no key ids, so keys cannot rotate; they bind neither audience, method
/// nor arguments; one key makes the payload's MAC and the binding.
///
/// Narrower than the original where that costs no honest peer anything: base64 must be canonical, a sealed state is at most
/// [`SEALED_BYTES_MAX`] long, and a subject may hold no NUL (it would run into the tool) nor begin with `{` (the binding
/// that a client can read in `v1.` would be the MAC of a payload of its choosing).
pub struct CompatCodec {
    mac_key: Key,
    aes_key: Key,
    mode: StateMode,
    binding: StateBinding,
    ttl: Duration,
    now_ms: fn() -> u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    s: String,
    exp: i64,
    b: String,
}

impl CompatCodec {
    /// States under this key: signed, bound to the subject, redeemable for [`STATE_TTL`].
    #[must_use]
    pub fn new(key: &OperatorKey) -> Self {
        let part = |info: &[u8]| derive(key.bytes(), &[b"mcp.requestState ", info]);
        Self {
            mac_key: part(b"bind-hmac key"),
            aes_key: part(b"aes-256-gcm key"),
            mode: StateMode::default(),
            binding: StateBinding::default(),
            ttl: STATE_TTL,
            now_ms: wall_ms,
        }
    }

    /// How states are protected. A codec opens the form that it seals, and refuses the other.
    #[must_use]
    pub fn mode(mut self, mode: StateMode) -> Self {
        self.mode = mode;
        self
    }

    /// What states are bound to.
    #[must_use]
    pub fn binding(mut self, binding: StateBinding) -> Self {
        self.binding = binding;
        self
    }

    /// How long a state may be redeemed, in whole seconds (a fraction is dropped): 1 s to
    /// [`STATE_TTL_MAX`](super::STATE_TTL_MAX).
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) beyond these bounds.
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

    fn now_s(&self) -> i64 {
        i64::try_from((self.now_ms)() / 1000).unwrap_or(i64::MAX)
    }

    /// The binding in this context, if there can be one.
    pub(super) fn bind(&self, context: &StateContext<'_>) -> Option<String> {
        let subject = context.subject.unwrap_or_default();
        let tool = match context.method {
            Some(RESOURCES_READ) => "",
            _ => context.target.unwrap_or_default(),
        };
        if self.binding != StateBinding::None
            && (subject.contains('\0') || subject.starts_with('{'))
        {
            return None;
        }
        let material: &[&[u8]] = match self.binding {
            StateBinding::None => &[],
            StateBinding::Subject => &[subject.as_bytes()],
            StateBinding::SubjectAndTool => &[subject.as_bytes(), b"\0", tool.as_bytes()],
        };
        Some(HEXLOWER.encode(&hmac(&self.mac_key, material)))
    }

    /// Seals a payload as it is, whatever it is.
    pub(super) fn seal(&self, payload: &[u8], binding: &str, nonce: [u8; NONCE_BYTES]) -> String {
        match self.mode {
            StateMode::Signed => {
                let mac = hmac(&self.mac_key, &[payload]);
                format!("{SIGNED}{}.{}", base64(payload), base64(&mac))
            }
            StateMode::Encrypted => {
                let ciphertext = gcm_seal(&self.aes_key, nonce, binding.as_bytes(), payload);
                let blob = [&nonce[..], &ciphertext].concat();
                format!("{ENCRYPTED}{}", base64(&blob))
            }
        }
    }

    /// The payload, authenticated.
    fn payload(&self, sealed: &str, binding: &str) -> Result<Payload, Refusal> {
        let authentic = match self.mode {
            StateMode::Signed => {
                let text = sealed.strip_prefix(SIGNED).ok_or(Refusal::Form)?;
                let (payload, mac) = text.split_once('.').ok_or(Refusal::Malformed)?;
                let payload = from_base64(payload).ok_or(Refusal::Malformed)?;
                let mac = from_base64(mac).ok_or(Refusal::Malformed)?;
                if !hmac_holds(&self.mac_key, &payload, &mac) {
                    return Err(Refusal::Forged);
                }
                payload.into()
            }
            StateMode::Encrypted => {
                let text = sealed.strip_prefix(ENCRYPTED).ok_or(Refusal::Form)?;
                let blob = from_base64(text).ok_or(Refusal::Malformed)?;
                let (nonce, ciphertext) = blob.split_first_chunk().ok_or(Refusal::Malformed)?;
                gcm_open(&self.aes_key, *nonce, binding.as_bytes(), ciphertext)
                    .ok_or(Refusal::Forged)?
            }
        };
        serde_json::from_slice(&authentic).map_err(|_| Refusal::Malformed)
    }
}

#[async_trait]
impl StateCodec for CompatCodec {
    async fn encode(&self, state: &str, context: &StateContext<'_>) -> Result<String, Error> {
        check_state_size(state)?;
        let binding = self.bind(context).ok_or_else(|| {
            let message =
                "a subject with a NUL or a `{` at its head cannot be bound in a compat form";
            Error::new(ErrorKind::Invalid, message)
        })?;
        let ttl_s = i64::try_from(self.ttl.as_secs()).expect("a day at most");
        let payload = Payload {
            s: state.to_owned(),
            exp: self.now_s().saturating_add(ttl_s),
            b: binding.clone(),
        };
        let payload = serde_json::to_vec(&payload).expect("strings and a number have a JSON form");
        let sealed = self.seal(&payload, &binding, random()?);
        if sealed.len() > SEALED_BYTES_MAX {
            let message = "a state that is too long once it is escaped as JSON: seal a handle";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(sealed)
    }

    async fn decode(&self, sealed: &str, context: &StateContext<'_>) -> Result<Opened, Refusal> {
        if sealed.len() > SEALED_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let binding = self.bind(context).ok_or(Refusal::Context)?;
        let Payload { s, exp, b } = self.payload(sealed, &binding)?;
        if !same(b.as_bytes(), binding.as_bytes()) {
            return Err(Refusal::Binding);
        }
        if exp < self.now_s() {
            return Err(Refusal::Expired);
        }
        // The original's states hold in the very second that they name.
        let expires_at_ms = u64::try_from(exp).unwrap_or_default().saturating_add(1);
        Ok(Opened {
            state: s,
            issued_at_ms: None,
            expires_at_ms: expires_at_ms.saturating_mul(1000),
            id: state_id(sealed),
        })
    }
}

impl fmt::Debug for CompatCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompatCodec")
            .field("mode", &self.mode)
            .field("binding", &self.binding)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codec(mode: StateMode, binding: StateBinding) -> CompatCodec {
        let key = OperatorKey::new((0..32).collect::<Vec<u8>>()).unwrap();
        CompatCodec::new(&key).mode(mode).binding(binding)
    }

    #[test]
    fn the_forms_are_those_of_the_original() {
        let nonce = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let context = StateContext::new().subject("alice").target("tool");
        for (mode, sealed) in [(StateMode::Signed, V1), (StateMode::Encrypted, V1E)] {
            let codec = codec(mode, StateBinding::Subject);
            let binding = codec.bind(&context).unwrap();
            let payload = Payload {
                s: r#"{"step":1}"#.to_owned(),
                exp: 1_900_000_000,
                b: binding.clone(),
            };
            let payload = serde_json::to_vec(&payload).unwrap();
            assert_eq!(codec.seal(&payload, &binding, nonce), sealed);
        }
    }

    #[test]
    fn the_keys_and_bindings_are_those_of_the_original() {
        let codec_of = |binding| codec(StateMode::Signed, binding);
        let CompatCodec {
            mac_key, aes_key, ..
        } = codec_of(StateBinding::None);
        assert_eq!(
            HEXLOWER.encode(&*mac_key),
            "cc11abd7b47172541a5188d97226b6a9c69aec5d0c59ab52ce213705057b104e"
        );
        assert_eq!(
            HEXLOWER.encode(&*aes_key),
            "a74dc0456bb4414d283f2e2402fdd8247cba4eda1da90ce1f4bdb3b1ac052999"
        );
        let context = StateContext::new().subject("alice").target("tool");
        let table = [
            (
                StateBinding::None,
                "abc1bc5ca94e55edfef0f918ecb172efd33a97d74b71d9aa0450000d0dfcb9ac",
            ),
            (
                StateBinding::Subject,
                "9471f6bc7535a865a6e0f94d225d2e9871214b66f90c233d060c07b3a8bc1ca2",
            ),
            (
                StateBinding::SubjectAndTool,
                "021083e08c54d9dc455c1e63987a5ab3090d043b4e388044c13a52bad496d75c",
            ),
        ];
        for (binding, expected) in table {
            assert_eq!(codec_of(binding).bind(&context).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn states_that_the_original_sealed_open_until_the_second_they_name_is_over() {
        let context = StateContext::new().subject("alice");
        for (mode, sealed) in [(StateMode::Signed, V1), (StateMode::Encrypted, V1E)] {
            let codec = |now_ms| codec(mode, StateBinding::Subject).at(now_ms);
            let opened = codec(|| 1_900_000_000_999).decode(sealed, &context).await;
            let opened = opened.unwrap();
            assert_eq!(opened.state, r#"{"step":1}"#);
            assert_eq!(opened.expires_at_ms, 1_900_000_001_000);
            let late = codec(|| 1_900_000_001_000).decode(sealed, &context).await;
            assert!(matches!(late, Err(Refusal::Expired)), "{late:?}");
        }
    }

    #[tokio::test]
    async fn a_subject_that_would_make_the_binding_an_oracle_is_refused() {
        let codec = codec(StateMode::Signed, StateBinding::Subject);
        for subject in [r#"{"s":"admin","exp":9999999999,"b":""}"#, "alice\0refund"] {
            let context = StateContext::new().subject(subject);
            let error = codec.encode("{}", &context).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let refused = codec.decode(V1, &context).await;
            assert!(matches!(refused, Err(Refusal::Context)), "{refused:?}");
        }
    }

    const V1: &str = "v1.eyJzIjoie1wic3RlcFwiOjF9IiwiZXhwIjoxOTAwMDAwMDAwLCJiIjoiOTQ3MWY2YmM3NTM1YTg2NWE2ZTBmOTRkMjI1ZDJlOTg3MTIxNGI2NmY5MGMyMzNkMDYwYzA3YjNhOGJjMWNhMiJ9.Iu49jAAUVRL9CUTo-WoOXzA6d6o2Ravl-LZYM3lww9o";
    const V1E: &str = "v1e.AAECAwQFBgcICQoLxPMY8OH9SAN9lSTjKd2YCd8-rf5sfKoQsPyDWY06xJBALCDlt9irl_kouqI3_mWbEA24VSOzOsySQjMQob4-DUTzbLM8Ui09E_NxWRAoljJ9numDvWIUSMIET_42Fv9WJPcdBmVK0vaWXHUT0S7oVgSjBiWMAk4cLWa_DQ";
}
