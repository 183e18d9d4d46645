//! A server that never asks: it gives no state out, so whatever is presented as one does not hold.

use async_trait::async_trait;
use helve_client::{Error, ErrorKind};
use helve_request_state::state_codec::{Opened, Refusal, StateCodec, StateContext};

/// Seals nothing, and opens nothing.
pub(super) struct Unsealed;

#[async_trait]
impl StateCodec for Unsealed {
    async fn encode(&self, _: &str, _: &StateContext<'_>) -> Result<String, Error> {
        Err(Error::new(
            ErrorKind::Invalid,
            "this server has no key to seal states under",
        ))
    }

    async fn decode(&self, _: &str, _: &StateContext<'_>) -> Result<Opened, Refusal> {
        Err(Refusal::UnknownKey)
    }
}
