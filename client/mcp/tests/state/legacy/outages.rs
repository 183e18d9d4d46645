//! Sessions while their store does not do what it is asked: a client is told so, and loses nothing.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use helve_client::{
    Backend, Error, ErrorKind,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, exchange_answer::Answer as Said,
        exchange_call::Call,
    },
};

use super::*;

/// A host that reads, and that writes no handle while it is told not to.
struct ReadOnly {
    inner: Client,
    is_on: Arc<AtomicBool>,
}

/// The same host, and what makes it refuse to write.
fn read_only(inner: Client) -> (Client, Arc<AtomicBool>) {
    let is_on = Arc::<AtomicBool>::default();
    let host = ReadOnly {
        inner,
        is_on: Arc::clone(&is_on),
    };
    (Client::new(Arc::new(host)), is_on)
}

impl fmt::Debug for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnly").finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for ReadOnly {
    async fn call(&self, call: Call, _deadline: Duration) -> Result<Said, Error> {
        let writes = matches!(call, Call::Put(_) | Call::Delete(_));
        if writes && self.is_on.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "it only reads now"));
        }
        Ok(match call {
            Call::Get(request) => Said::Get(self.inner.call(request).await?),
            Call::Put(request) => Said::Put(self.inner.call(request).await?),
            Call::Delete(request) => Said::Delete(self.inner.call(request).await?),
            Call::Count(request) => Said::Count(self.inner.call(request).await?),
            Call::Exists(request) => Said::Exists(self.inner.call(request).await?),
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

#[tokio::test]
async fn session_is_not_unknown_while_its_store_does_not_answer() {
    let client = memory();
    let house = house(&client, anybody()).await;
    let session = Session::begin(house.replicas[0], None).await;
    client.close();
    for replica in &house.replicas {
        let answer = session.call(*replica, "exists", json!({"key": "k"})).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    }
}

#[tokio::test]
async fn session_that_could_not_be_kept_is_not_begun() {
    let (client, is_on) = read_only(memory());
    let house = house(&client, anybody()).await;
    is_on.store(true, Ordering::SeqCst);
    let nobody = Session {
        id: String::new(),
        token: None,
    };
    let parameters = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    });
    let address = house.replicas[0];
    let begun = nobody.send(address, "initialize", Some(1), parameters);
    let answer = begun.await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    assert_eq!(answer.session, None);
    is_on.store(false, Ordering::SeqCst);
    Session::begin(address, None).await;
}

#[tokio::test]
async fn session_that_could_not_be_ended_is_not_called_ended() {
    let (client, is_on) = read_only(memory());
    let house = house(&client, anybody()).await;
    let [first, second] = house.replicas[..] else {
        panic!("two replicas")
    };
    let session = Session::begin(first, None).await;
    is_on.store(true, Ordering::SeqCst);
    let end = async || request(Method::DELETE, first, &session.headers(), String::new()).await;
    let answer = end().await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    let alive = session.call(second, "exists", json!({"key": "k"})).await;
    assert_eq!(alive.status, StatusCode::OK, "{alive:?}");
    is_on.store(false, Ordering::SeqCst);
    assert_eq!(end().await.status, StatusCode::NO_CONTENT);
    let gone = session.call(second, "exists", json!({"key": "k"})).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND, "{gone:?}");
}
