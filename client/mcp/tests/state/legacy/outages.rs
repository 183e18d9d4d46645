//! Sessions while their store does not do what it is asked: a client is told so, and loses nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use helve_client::{Error, ErrorKind, v1::exchange_call::Call};

use super::*;
use crate::flaky::{Fault, flaky};

/// The same host, and what makes it refuse to write handles.
fn read_only(inner: Client) -> (Client, Arc<AtomicBool>) {
    let is_on = Arc::<AtomicBool>::default();
    let refuses = Arc::clone(&is_on);
    let client = flaky(inner, move |call| {
        let writes = matches!(call, Call::Put(_) | Call::Delete(_));
        (writes && refuses.load(Ordering::SeqCst)).then(|| Fault {
            error: Error::new(ErrorKind::Unavailable, "it only reads now"),
            is_done: false,
        })
    });
    (client, is_on)
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
    let address = house.replicas[0];
    let answer = initialized(address).await;
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
