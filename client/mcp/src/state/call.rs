//! One call of a tool: whose keys it is about, and until when it must be answered.

use helve_client::{Client, KeyOptions, Keys, Owner, Request};
use tokio::time::Instant;

use super::error::ToolError;

/// One call of a tool.
pub(super) struct Call {
    client: Client,
    owner: Owner,
    options: KeyOptions,
    until: Instant,
}

impl Call {
    /// A call about the keys of `owner`, to be answered within the client's deadline, however many calls of the cluster it takes.
    pub(super) fn begin(client: &Client, owner: Owner, options: &KeyOptions) -> Self {
        Self {
            until: Instant::now() + client.deadline(),
            options: options.clone().owner(owner.clone()),
            owner,
            client: client.clone(),
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
