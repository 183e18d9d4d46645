//! A host whose answers to stores can be lost.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use helve_client::{
    Backend, Client, Error, ErrorKind,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, exchange_answer::Answer,
        exchange_call::Call,
    },
};

/// Whether the store whose answer is lost was carried out.
#[derive(Clone, Copy)]
pub(crate) enum Deed {
    Done,
    Undone,
}

/// The store whose answer is lost next: how its key ends.
#[derive(Default)]
pub(crate) struct Faults {
    next: Mutex<Option<(&'static str, Deed)>>,
}

impl Faults {
    pub(crate) fn lose_next_store_of(&self, suffix: &'static str, deed: Deed) {
        *self.next.lock().unwrap() = Some((suffix, deed));
    }

    /// Whether none has been lost yet.
    pub(crate) fn pending(&self) -> bool {
        self.next.lock().unwrap().is_some()
    }
}

struct Flaky {
    inner: Client,
    faults: Arc<Faults>,
}

/// The same host, with faults.
pub(crate) fn flaky(inner: Client) -> (Client, Arc<Faults>) {
    let faults = Arc::<Faults>::default();
    let flaky = Flaky {
        inner,
        faults: Arc::clone(&faults),
    };
    (Client::new(Arc::new(flaky)), faults)
}

impl fmt::Debug for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flaky").finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for Flaky {
    async fn call(&self, call: Call, _deadline: Duration) -> Result<Answer, Error> {
        Ok(match call {
            Call::Store(request) => {
                let lost = {
                    let mut next = self.faults.next.lock().unwrap();
                    next.take_if(|(suffix, _)| request.key.ends_with(*suffix))
                };
                if let Some((_, Deed::Undone)) = lost {
                    return Err(Error::new(ErrorKind::Ambiguous, "lost on its way"));
                }
                let reply = self.inner.call(request).await?;
                if lost.is_some() {
                    return Err(Error::new(ErrorKind::Ambiguous, "lost on its way back"));
                }
                Answer::Store(reply)
            }
            Call::Retrieve(request) => Answer::Retrieve(self.inner.call(request).await?),
            Call::DeleteKey(request) => Answer::DeleteKey(self.inner.call(request).await?),
            Call::Exists(request) => Answer::Exists(self.inner.call(request).await?),
            other => panic!("no test makes this call here: {other:?}"),
        })
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        _deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        self.inner.list_handles(request).await
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        _deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        self.inner.list_keys(request).await
    }

    fn deadline(&self) -> Duration {
        self.inner.deadline()
    }

    fn close(&self) {
        self.inner.close();
    }
}
