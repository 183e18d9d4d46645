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

mod bounds;
mod cluster_keys;
mod codec;
mod compat;
mod context;
#[cfg(any(test, fuzzing))]
mod fuzzing;
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

#[cfg(any(test, fuzzing))]
pub use self::fuzzing::sealed_state;
pub use self::{
    bounds::{CLOCK_SKEW_MAX, SEALED_BYTES_MAX, STATE_BYTES_MAX, STATE_TTL, STATE_TTL_MAX},
    cluster_keys::ClusterKeys,
    codec::{Opened, StateCodec},
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
