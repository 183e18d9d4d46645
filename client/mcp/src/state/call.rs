//! One call of a tool: whose keys it is about, and until when it must be answered.

use helve_client::{Client, KeyOptions, Keys, Owner, Request};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{error::ToolError, room::ReadRoom};

/// One call of a tool.
pub(super) struct Call {
    client: Client,
    owner: Owner,
    options: KeyOptions,
    until: Instant,
    room: ReadRoom,
    /// What it has of the room.
    claimed: Option<OwnedSemaphorePermit>,
}

impl Call {
    /// A call about the keys of `owner`, to be answered within the client's deadline, however many calls of the cluster it takes.
    pub(super) fn begin(
        client: &Client,
        owner: Owner,
        options: &KeyOptions,
        room: &ReadRoom,
    ) -> Self {
        Self {
            until: Instant::now() + client.deadline(),
            options: options.clone().owner(owner.clone()),
            owner,
            client: client.clone(),
            room: room.clone(),
            claimed: None,
        }
    }

    /// Waits for room for the values that it is about to parse, in what is left of the time. A call
    /// claims once, for all of them: two calls that hold a part could wait for each other.
    ///
    /// # Errors
    /// If there is none in time.
    pub(super) async fn claim(&mut self, bytes: usize) -> Result<(), ToolError> {
        self.claimed = Some(self.room.claim(bytes, self.until).await?);
        Ok(())
    }

    /// Ends the call, but keeps what it has of the room until the request is cancelled, which rmcp
    /// does once it writes the answer: until then the values are in memory. Or until the time is
    /// up, so that no room is lost if rmcp does not.
    pub(super) fn keep_room_until(self, cancelled: CancellationToken) {
        let Self { until, claimed, .. } = self;
        if let Some(claimed) = claimed {
            tokio::spawn(async move {
                let _late = timeout_at(until, cancelled.cancelled_owned()).await;
                drop(claimed);
            });
        }
    }

    /// Whose keys, as requests have it.
    ///
    /// # Errors
    /// If they are the keys of an owner without a name.
    pub(super) fn owner(&self) -> Result<String, ToolError> {
        Ok(self.owner.on_wire()?)
    }

    /// A client that answers in what is left of the time.
    pub(super) fn client(&self) -> Client {
        let left = self.until.saturating_duration_since(Instant::now());
        self.client.with_deadline(left)
    }

    /// The keys.
    pub(super) fn keys(&self) -> Keys {
        self.client().keys(self.options.clone())
    }

    /// Makes one call of `helve.v1`.
    pub(super) async fn make<R: Request>(&self, request: R) -> Result<R::Reply, ToolError> {
        Ok(self.client().call(request).await?)
    }
}
