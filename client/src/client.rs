//! A client of any host.

use std::{fmt, sync::Arc, time::Duration};

use helve_proto::v1::{ListKeysReply, ListKeysRequest, ListReply, ListRequest};

use crate::{
    backend::{Backend, Request},
    error::Error,
    promises::Promises,
};

/// A client of a cluster or of the in-memory host. Cloning is cheap, and clones share everything: connections, replay session,
/// and [`close`](Self::close).
#[derive(Clone)]
pub struct Client {
    backend: Arc<dyn Backend>,
    deadline: Duration,
}

impl Client {
    /// A client of this host.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let deadline = backend.deadline();
        Self { backend, deadline }
    }

    /// The same client, but its calls may take this long; a day at most.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self {
            backend: Arc::clone(&self.backend),
            deadline,
        }
    }

    /// How long each call may take, retries included.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// What its host promises.
    #[must_use]
    pub fn promises(&self) -> Promises {
        self.backend.promises()
    }

    /// Makes one call of `helve.v1` as it is. Stores and transactions do this for you.
    ///
    /// # Errors
    /// As [`Backend::call`].
    pub async fn call<R: Request>(&self, request: R) -> Result<R::Reply, Error> {
        let answer = self
            .backend
            .call(request.into_call(), self.deadline)
            .await?;
        R::reply(answer).ok_or_else(|| Error::internal("an answer to another request"))
    }

    /// Lists handles, as they are.
    ///
    /// # Errors
    /// As [`Backend::list_handles`].
    pub async fn list_handles(&self, request: ListRequest) -> Result<Vec<ListReply>, Error> {
        self.backend.list_handles(request, self.deadline).await
    }

    /// Lists keys, as they are.
    ///
    /// # Errors
    /// As [`Backend::list_keys`].
    pub async fn list_keys(&self, request: ListKeysRequest) -> Result<Vec<ListKeysReply>, Error> {
        self.backend.list_keys(request, self.deadline).await
    }

    pub(crate) async fn survey(
        &self,
        patience: Duration,
    ) -> Vec<Option<helve_proto::v1::StatusReply>> {
        self.backend.survey(patience).await
    }

    /// The host of this client, for a host that wraps it.
    #[must_use]
    pub fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend)
    }

    /// Ends the work of this client and all its clones and stores: calls from now on answer
    /// [`Closed`](crate::ErrorKind::Closed), and so do those under way, but for writes that were sent and not answered: they are
    /// [`Ambiguous`](crate::ErrorKind::Ambiguous). Closing again does nothing.
    pub fn close(&self) {
        self.backend.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({:?}, {:?})", self.backend, self.deadline)
    }
}
