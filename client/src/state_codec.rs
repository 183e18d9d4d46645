//! Sealing the `requestState` of MCP's multi round-trip requests (SEP-2322).
//!
//! A server that needs more input answers with an opaque `requestState`, and the client echoes it with its retry. What comes back
//! is the client's to choose, so it must be protected, bound to whom it was given and to what it was given for, and refused when
//! it does not hold. A [`StateCodec`] does both ends; it is fail-closed: there is no answer between "holds" and "refused".
//!
//! | codec | form | protection | what it binds |
//! |---|---|---|---|
//! | [`HardenedCodec`] (take this) | `h1.` | AES-256-GCM under a key of its own per state | subject, audience, method, target, arguments; key id and version under authentication |
//! | [`CompatCodec`], signed | `v1.` | HMAC-SHA256, readable by the client | nothing, subject, or subject and tool |
//! | [`CompatCodec`], encrypted | `v1e.` | AES-256-GCM | the same |
//!
//! The compat forms are those of mcp.d's `mcp.server.request_state`, byte for byte, for fleets that mix both; their weaknesses are
//! listed at [`CompatCodec`].
//!
//! Keys: all replicas that redeem each other's states need the same. [`FixedKeys`] are given at the start; [`ClusterKeys`] lie in
//! the cluster as a [`KeyRing`], and rotate while the replicas run. [`SingleUse`] makes a state redeemable once, wherever it is
//! presented.

mod cluster_keys;
mod compat;
mod context;
mod hardened;
mod key;
mod key_ring;
mod keys;
pub(crate) mod primitives;
mod refusal;
mod ring;
mod single_use;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use sha2::{Digest, Sha256};

pub use self::{
    cluster_keys::ClusterKeys,
    compat::{CompatCodec, StateBinding, StateMode},
    context::{ArgumentsDigest, StateContext},
    hardened::HardenedCodec,
    key::{OPERATOR_KEY_BYTES_MIN, OperatorKey},
    key_ring::KeyRing,
    keys::{FixedKeys, KeyId, SealingKey, StateKeys},
    refusal::Refusal,
    ring::{KeyPhase, PICK_UP_MAX, Patience, RingKey},
    single_use::SingleUse,
};
use crate::error::{Error, ErrorKind};

/// Bytes of a state before it is sealed. What is larger belongs under a handle, and the handle into the state.
pub const STATE_BYTES_MAX: usize = 32 << 10;
/// Bytes of a sealed state. Longer ones are refused before anything of them is looked at.
pub const SEALED_BYTES_MAX: usize = 64 << 10;
/// How long a state may be redeemed, if nobody says otherwise.
pub const STATE_TTL: Duration = Duration::from_secs(5 * 60);
/// How long a state may be redeemable at most: as long as the cluster remembers what was used up.
pub const STATE_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How far the wall clocks of replicas may differ: a state from further in the future is refused.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// Seals states for clients to carry, and opens what they bring back. Object safe; shared by all requests.
#[async_trait]
pub trait StateCodec: Send + Sync {
    /// Seals a state, so that it opens in the same context alone. At most [`STATE_BYTES_MAX`]; empty is a state, too.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the state is too long, or the context cannot be bound;
    /// [`Entropy`](ErrorKind::Entropy) if there is no randomness; [`Unavailable`](ErrorKind::Unavailable) if the keys cannot be
    /// had.
    async fn encode(&self, state: &str, context: &StateContext<'_>) -> Result<String, Error>;

    /// Opens what a client brought, if it is authentic, live, and was sealed in this very context.
    ///
    /// # Errors
    /// The [`Refusal`] is for the log alone: whoever presented the state must hear one and the same answer whatever it is, but
    /// for [`Unavailable`](Refusal::Unavailable), which says nothing of the state.
    async fn decode(&self, sealed: &str, context: &StateContext<'_>) -> Result<Opened, Refusal>;
}

/// A state that held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The state, as it was given to [`encode`](StateCodec::encode).
    pub state: String,
    /// When it was sealed, in milliseconds since the Unix epoch on the sealing replica's wall clock; the compat forms do not say.
    pub issued_at_ms: Option<u64>,
    /// From when on it is refused, in milliseconds since the Unix epoch.
    pub expires_at_ms: u64,
    /// Which sealed state it was: 32 hexadecimal digits, the same wherever it is opened. [`SingleUse`] goes by it.
    pub id: String,
}

/// The id of a sealed state. No two texts open to the same state (base64 is canonical, and every byte under authentication), so
/// the text itself is what is used once.
fn state_id(sealed: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(sealed)[..16])
}

fn check_state_size(state: &str) -> Result<(), Error> {
    if state.len() > STATE_BYTES_MAX {
        let message = format!(
            "a state of {} bytes, {STATE_BYTES_MAX} at most: keep it under a handle, and seal the handle",
            state.len()
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

fn check_ttl(ttl: Duration) -> Result<(), Error> {
    if ttl < Duration::from_secs(1) || ttl > STATE_TTL_MAX {
        let message = "a state must be redeemable for at least 1 s, and at most 24 h";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

fn wall_ms() -> u64 {
    // A wall before 1970 makes every state of the right time one from the future: refused.
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => {
            let message = "the operating system gave no randomness: nothing was sealed";
            Err(Error::new(ErrorKind::Entropy, message).with_source(error))
        }
    }
}
