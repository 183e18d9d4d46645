//! States that are redeemed once.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use helve_client::{Client, Error, HandleOptions, HandleStore, Handles, PutOutcome, Ttl};

use super::{
    bounds::CLOCK_SKEW_MAX,
    codec::{Opened, StateCodec, wall_ms},
    context::StateContext,
    refusal::Refusal,
};

/// The store in which used states are remembered. No server keeps handles of end users in it.
const STORE: &str = "helve-used-states";

/// Opens each state once: the caller that presents it first, on whichever replica, redeems it; all
/// others are refused. SEP-2322 asks for this where a state must be consumed at most once, such as
/// a confirmation of something that cannot be taken back.
///
/// A state is marked as used before its opener hears of it. If the opener dies then, or the mark's
/// answer is lost, the state is gone: at most once is not exactly once, and the client must start
/// over.
pub struct SingleUse {
    codec: Arc<dyn StateCodec>,
    used: Handles<()>,
}

impl SingleUse {
    /// What this codec opens, once. Marks are kept on the client's host: replicas that share it share them.
    #[must_use]
    pub fn new(codec: Arc<dyn StateCodec>, client: &Client) -> Self {
        Self {
            codec,
            used: client.handles(HandleOptions::shared(STORE)),
        }
    }

    /// Marks it as used, for as long as any replica might still take it for live: a put of what must be absent.
    async fn use_up(&self, opened: &Opened) -> Result<(), Refusal> {
        let left = Duration::from_millis(opened.expires_at_ms.saturating_sub(wall_ms()));
        let ttl = Ttl::After(left + 2 * CLOCK_SKEW_MAX);
        match self.used.put_if(&opened.id, &(), ttl, 0).await {
            Ok(PutOutcome::Created(_)) => Ok(()),
            Ok(_) => Err(Refusal::Used),
            Err(error) => Err(Refusal::Unavailable(error)),
        }
    }
}

#[async_trait]
impl StateCodec for SingleUse {
    async fn encode(&self, state: &str, context: &StateContext<'_>) -> Result<String, Error> {
        self.codec.encode(state, context).await
    }

    async fn decode(&self, sealed: &str, context: &StateContext<'_>) -> Result<Opened, Refusal> {
        let opened = self.codec.decode(sealed, context).await?;
        self.use_up(&opened).await?;
        Ok(opened)
    }
}

impl fmt::Debug for SingleUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleUse")
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
