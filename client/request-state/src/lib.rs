//! Sealed state for MCP servers and clients: what a client carries, what it must not lose, and values that the cluster
//! must not read.
//!
//! | module | what it seals | where it is kept |
//! |---|---|---|
//! | [`state_codec`] | the `requestState` of multi round-trip requests (SEP-2322) | with the MCP client, which brings it back |
//! | [`client_state`] | an MCP client's session, tokens and knowledge of its server | in the cluster, under keys |
//! | [`EndToEnd`] | every value of a [`Client`](helve_client::Client) | in the cluster, which holds no key to it |
//!
//! A server seals a state, and any of its replicas opens it, in the same context only:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use helve_request_state::state_codec::*;
//!
//! let key = OperatorKey::ephemeral()?; // the same on all replicas: see KeyRing
//! let codec = HardenedCodec::new(Arc::new(FixedKeys::new(&key)));
//! let context = StateContext::new().subject("ada").method("tools/call").target("checkout");
//! let sealed = codec.encode("step 2 of 3", &context).await?;
//! assert_eq!(codec.decode(&sealed, &context).await?.state, "step 2 of 3");
//! assert!(codec.decode(&sealed, &context.subject("eve")).await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//! Sealing fails with the [`Error`](helve_client::Error) of the client crate. A codec refuses with a
//! [`Refusal`](state_codec::Refusal), which is for the log only. A stored value that does not open is an error of kind
//! [`Sealed`](helve_client::ErrorKind::Sealed): nothing of it is returned.
//!
//! # Features
//! None. The host is the client's: enable `cluster` or `memory` of [`helve_client`].

pub mod client_state;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
#[path = "../../src/properties.rs"]
mod properties;
mod sealed;
#[cfg(test)]
#[path = "../../src/seeds.rs"]
mod seeds;
pub mod state_codec;

pub use sealed::{EndToEnd, SealClient};
