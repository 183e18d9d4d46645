//! A host whose calls can fail, before or after they are carried out.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use helve_client::{
    Backend, Client, Error,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, exchange_answer::Answer,
        exchange_call::Call,
    },
};

/// How a call fails.
pub(crate) struct Fault {
    /// What its caller gets.
    pub(crate) error: Error,
    /// Whether it is carried out before.
    pub(crate) is_done: bool,
}

struct Flaky<F> {
    inner: Client,
    fault: F,
}

/// The same host, but calls fail for which `fault` answers one.
pub(crate) fn flaky(
    inner: Client,
    fault: impl Fn(&Call) -> Option<Fault> + Send + Sync + 'static,
) -> Client {
    Client::new(std::sync::Arc::new(Flaky { inner, fault }))
}

impl<F> fmt::Debug for Flaky<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flaky").finish_non_exhaustive()
    }
}

#[async_trait]
impl<F: Fn(&Call) -> Option<Fault> + Send + Sync> Backend for Flaky<F> {
    async fn call(&self, call: Call, deadline: Duration) -> Result<Answer, Error> {
        let host = self.inner.backend();
        let Some(Fault { error, is_done }) = (self.fault)(&call) else {
            return host.call(call, deadline).await;
        };
        if is_done {
            host.call(call, deadline).await?;
        }
        Err(error)
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        self.inner.backend().list_handles(request, deadline).await
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        self.inner.backend().list_keys(request, deadline).await
    }

    fn deadline(&self) -> Duration {
        self.inner.deadline()
    }

    fn close(&self) {
        self.inner.close();
    }
}
