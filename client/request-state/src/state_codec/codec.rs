//! The interface of every codec.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use helve_client::Error;
use sha2::{Digest, Sha256};

use super::{context::StateContext, refusal::Refusal};

/// Seals states for clients to carry, and opens what they bring back. Object safe; shared by all requests.
#[async_trait]
pub trait StateCodec: Send + Sync {
    /// Seals a state, so that it opens in the same context alone. At most [`STATE_BYTES_MAX`](super::STATE_BYTES_MAX); empty is a state, too.
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if the state is too long, or the context cannot be bound;
    /// [`Entropy`](helve_client::ErrorKind::Entropy) if there is no randomness; [`Unavailable`](helve_client::ErrorKind::Unavailable) if the keys cannot be
    /// had.
    async fn encode(&self, state: &str, context: &StateContext<'_>) -> Result<String, Error>;

    /// Opens what a client brought, if it is authentic, live, and was sealed in this very context.
    ///
    /// # Errors
    /// The [`Refusal`] is for the log alone: the caller that presented the state must get one and
    /// the same answer whatever it is, but for [`Unavailable`](Refusal::Unavailable), which says
    /// nothing of the state.
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
    /// Which sealed state it was: 32 hexadecimal digits, the same wherever it is opened. [`SingleUse`](super::SingleUse) goes by it.
    pub id: String,
}

/// The id of a sealed state. No two texts open to the same state (base64 is canonical, and every byte under authentication), so
/// the text itself is what is used once.
pub(super) fn state_id(sealed: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(sealed)[..16])
}

pub(super) fn wall_ms() -> u64 {
    // A wall before 1970 makes every state of the right time one from the future: refused.
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}
