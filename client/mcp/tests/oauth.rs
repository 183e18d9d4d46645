//! OAuth credentials and logins that replicas share.

#![allow(clippy::unwrap_used)]

mod flaky;
mod issuer;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::{join, join_all};
use helve_client::{
    Client, Error, ErrorKind, KeyOptions, MemoryBuilder, StateTool, v1::exchange_call::Call,
};
use helve_mcp::storage::{REFRESH_GUARD_TTL, access_token, resume, was_replaced};
use rmcp::transport::auth::{
    AuthError, CredentialStore, OAuthClientConfig, StateStore, StoredCredentials,
};
use serde_json::json;
use tokio::time::advance;

use crate::{
    flaky::{Fault, flaky},
    issuer::{ISSUER, Issuer, begin_login, credentials, log_in, logins, manager, replica, state},
};

fn memory() -> Client {
    MemoryBuilder::new().build().unwrap()
}

/// The store whose answer is lost next: how its key ends, and whether it is carried out.
type Lost = Arc<Mutex<Option<(&'static str, bool)>>>;

/// The same host, which can lose the answer to a store.
fn losing(inner: Client) -> (Client, Lost) {
    let lost = Lost::default();
    let next = Arc::clone(&lost);
    let client = flaky(inner, move |call| {
        let Call::Store(request) = call else {
            return None;
        };
        let mut next = next.lock().unwrap();
        let (_, is_done) = next.take_if(|(suffix, _)| request.key.ends_with(*suffix))?;
        let error = Error::new(ErrorKind::Ambiguous, "the answer is lost");
        Some(Fault { error, is_done })
    });
    (client, lost)
}

fn stored(name: &str) -> StoredCredentials {
    let tokens = json!({
        "access_token": format!("access-{name}"), "token_type": "bearer",
        "refresh_token": format!("refresh-{name}"), "expires_in": 1,
    });
    let tokens = serde_json::from_value(tokens).unwrap();
    StoredCredentials::new("agent".to_owned(), Some(tokens), vec![], Some(0))
        .with_issuer(Some(ISSUER.to_owned()))
}

async fn held(client: &Client) -> String {
    let loaded = credentials(client).load().await.unwrap().unwrap();
    let tokens = serde_json::to_value(loaded.token_response.unwrap()).unwrap();
    tokens["access_token"].as_str().unwrap().to_owned()
}

fn refused<T: std::fmt::Debug>(result: Result<T, AuthError>) -> String {
    match result {
        Err(AuthError::CredentialStoreError(message)) => message,
        other => panic!("expected an error of the store, got {other:?}"),
    }
}

#[tokio::test]
async fn a_process_that_starts_again_needs_no_login() {
    let (client, issuer) = (memory(), Issuer::new());
    let (_, resumed) = replica(&client, &issuer).await;
    assert!(!resumed, "there was no login yet");
    log_in(&client, &issuer).await;
    let (manager, resumed) = replica(&client, &issuer).await;
    assert!(resumed);
    let token = access_token(&manager).await.unwrap();
    assert_eq!(token, "access-refreshed-1");
    assert_eq!(issuer.asked(), (1, 1));
}

#[tokio::test]
async fn replicas_that_refresh_at_once_ask_the_issuer_once() {
    let (client, issuer) = (memory(), Issuer::new());
    log_in(&client, &issuer).await;
    let replicas = join_all((0..8).map(|_| replica(&client, &issuer))).await;
    issuer.hold_refreshes();
    let open = async {
        while issuer.asked().1 == 0 {
            tokio::task::yield_now().await;
        }
        issuer.gate.add_permits(8);
    };
    let tokens = join_all(replicas.iter().map(|(manager, _)| access_token(manager)));
    let (tokens, ()) = join(tokens, open).await;
    for token in tokens {
        assert_eq!(token.unwrap(), "access-refreshed-1");
    }
    assert_eq!(issuer.asked(), (1, 1));
}

#[tokio::test]
async fn a_token_that_another_replica_replaced_is_not_refreshed_again() {
    let (client, issuer) = (memory(), Issuer::new());
    log_in(&client, &issuer).await;
    let ((first, _), (second, _)) = (
        replica(&client, &issuer).await,
        replica(&client, &issuer).await,
    );
    access_token(&first).await.unwrap();
    // The server refused the token that the second had: rmcp refreshes, whatever is stored by now.
    let error = second.refresh_token().await.unwrap_err();
    assert!(was_replaced(&error), "{error}");
    assert_eq!(access_token(&second).await.unwrap(), "access-refreshed-1");
    assert_eq!(issuer.asked(), (1, 1));
    assert!(
        second.refresh_token().await.is_ok(),
        "now it knows that token, and wants another"
    );
    assert_eq!(issuer.asked(), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn the_guard_of_a_replica_that_died_lapses() {
    let (client, issuer) = (memory(), Issuer::new());
    log_in(&client, &issuer).await;
    let dead = credentials(&client).acquire_refresh_guard().await.unwrap();
    std::mem::forget(dead);
    let began = tokio::time::Instant::now();
    let (manager, _) = replica(&client, &issuer).await;
    assert_eq!(access_token(&manager).await.unwrap(), "access-refreshed-1");
    assert!(
        began.elapsed() >= REFRESH_GUARD_TTL,
        "it waited while the guard lived"
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_waits_for_others_no_longer_than_its_patience() {
    let client = memory();
    let dead = credentials(&client).acquire_refresh_guard().await.unwrap();
    std::mem::forget(dead);
    let impatient = credentials(&client).patience(Duration::from_secs(1));
    let message = refused(impatient.acquire_refresh_guard().await.map(drop));
    assert!(message.contains("try again"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lost_its_guard_cannot_overwrite_newer_credentials() {
    let client = memory();
    credentials(&client).save(stored("old")).await.unwrap();
    let (slow, quick) = (credentials(&client), credentials(&client));
    let lost = slow.acquire_refresh_guard().await.unwrap();
    slow.load().await.unwrap();
    advance(REFRESH_GUARD_TTL).await;
    let guard = quick.acquire_refresh_guard().await.unwrap();
    quick.load().await.unwrap();
    quick.save(stored("quick")).await.unwrap();
    drop(guard);
    let message = refused(slow.save(stored("slow")).await);
    assert!(message.contains("nothing was overwritten"), "{message}");
    assert_eq!(held(&client).await, "access-quick");
    drop(lost);

    let guard = slow.acquire_refresh_guard().await;
    assert!(guard.is_ok(), "it may try again, with what is there now");
}

#[tokio::test(start_paused = true)]
async fn holder_whose_guard_lapsed_saves_if_no_other_came() {
    let client = memory();
    credentials(&client).save(stored("old")).await.unwrap();
    let slow = credentials(&client);
    let _lapsed = slow.acquire_refresh_guard().await.unwrap();
    slow.load().await.unwrap();
    advance(REFRESH_GUARD_TTL).await;
    slow.save(stored("slow")).await.unwrap();
    assert_eq!(held(&client).await, "access-slow");
}

#[tokio::test]
async fn a_login_or_a_logout_during_a_refresh_wins() {
    let client = memory();
    let (refreshing, other) = (credentials(&client), credentials(&client));
    other.save(stored("old")).await.unwrap();
    let guard = refreshing.acquire_refresh_guard().await.unwrap();
    refreshing.load().await.unwrap();
    other.save(stored("login")).await.unwrap();
    refused(refreshing.save(stored("refreshed")).await);
    assert_eq!(held(&client).await, "access-login");
    drop(guard);

    let _guard = refreshing.acquire_refresh_guard().await.unwrap();
    refreshing.load().await.unwrap();
    other.clear().await.unwrap();
    refused(refreshing.save(stored("refreshed")).await);
    assert!(credentials(&client).load().await.unwrap().is_none());
}

#[tokio::test]
async fn a_refused_refresh_token_is_presented_once_by_all_replicas_together() {
    let (client, issuer) = (memory(), Issuer::new());
    log_in(&client, &issuer).await;
    let replicas = join_all((0..4).map(|_| replica(&client, &issuer))).await;
    issuer.revoke();
    for (manager, _) in &replicas {
        let token = access_token(manager).await;
        assert!(
            matches!(token, Err(AuthError::AuthorizationRequired)),
            "{token:?}"
        );
    }
    assert_eq!(issuer.asked(), (1, 1));
    assert!(
        !replica(&client, &issuer).await.1,
        "a process that begins is told to log in"
    );
}

#[tokio::test]
async fn a_login_begun_on_one_replica_is_completed_on_another_once() {
    let (client, issuer) = (memory(), Issuer::new());
    let (mut first, _) = replica(&client, &issuer).await;
    let csrf = begin_login(&mut first).await;
    let names = client.keys(KeyOptions::shared()).list("").await.unwrap();
    assert!(
        !names.concat().contains(&csrf),
        "a listing gives no login away"
    );

    let config = || OAuthClientConfig::new("agent", "http://localhost/callback");
    let mut others = [
        replica(&client, &issuer).await.0,
        replica(&client, &issuer).await.0,
    ];
    for other in &mut others {
        other.configure_client(config()).unwrap();
    }
    let callbacks = others
        .iter()
        .map(|it| it.exchange_code_for_token("code", &csrf));
    let outcomes = join_all(callbacks).await;
    assert_eq!(
        outcomes.iter().filter(|it| it.is_ok()).count(),
        1,
        "{outcomes:?}"
    );
    assert_eq!(issuer.asked(), (1, 0));
    assert!(first.exchange_code_for_token("code", &csrf).await.is_err());
    assert_eq!(issuer.asked(), (1, 0));
    assert!(replica(&client, &issuer).await.1);
}

#[tokio::test]
async fn a_login_can_be_taken_once_and_begun_once() {
    let client = memory();
    let (mut begun, _) = replica(&client, &Issuer::new()).await;
    let csrf = begin_login(&mut begun).await;
    let logins = logins(&client);
    let login = logins.load(&csrf).await.unwrap().unwrap();
    assert_eq!(login.csrf_token, csrf);
    assert!(
        logins.save(&csrf, login).await.is_err(),
        "another login of this CSRF token"
    );
    assert!(logins.load("another").await.unwrap().is_none());
    logins.delete(&csrf).await.unwrap();
    let again = logins.delete(&csrf).await;
    assert!(
        matches!(again, Err(AuthError::AuthorizationFailed(_))),
        "{again:?}"
    );
    assert!(logins.load(&csrf).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_login_expires() {
    let client = memory();
    let (mut begun, _) = replica(&client, &Issuer::new()).await;
    let csrf = begin_login(&mut begun).await;
    advance(helve_mcp::storage::LOGIN_TTL).await;
    assert!(logins(&client).load(&csrf).await.unwrap().is_none());
    assert!(logins(&client).delete(&csrf).await.is_err());
}

#[tokio::test]
async fn no_issuer_gets_the_credentials_of_another() {
    let (client, issuer) = (memory(), Issuer::new());
    log_in(&client, &issuer).await;
    issuer.rename("https://evil.example.com");
    assert!(
        !replica(&client, &issuer).await.1,
        "this issuer has given nothing"
    );
    assert_eq!(issuer.asked(), (1, 0));
    issuer.rename(ISSUER);
    assert!(replica(&client, &issuer).await.1, "nothing was thrown away");

    let foreign = stored("x").with_issuer(Some("https://evil.example.com".to_owned()));
    let message = refused(credentials(&client).save(foreign).await);
    assert!(message.contains("evil"), "{message}");
    assert_eq!(held(&client).await, "access-login-1");
}

#[tokio::test]
async fn a_store_that_fails_is_no_reason_to_log_in() {
    let (client, issuer) = (memory(), Issuer::new());
    log_in(&client, &issuer).await;
    let (running, _) = replica(&client, &issuer).await;
    let keys = client.keys(KeyOptions::shared());
    for name in keys.list("").await.unwrap() {
        keys.store(&name, &json!("cs1.forged")).await.unwrap();
    }
    refused(access_token(&running).await);
    let resumed = resume(&mut manager(&issuer).await, &state(&client), |it| it).await;
    refused(resumed);
    client.close();
    refused(access_token(&running).await);
    assert_eq!(issuer.asked(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn credentials_whose_save_was_not_answered_are_saved_once() {
    let (client, lost) = losing(memory());
    let issuer = Issuer::new();
    log_in(&client, &issuer).await;
    let (manager, _) = replica(&client, &issuer).await;
    for is_done in [true, false] {
        *lost.lock().unwrap() = Some(("/credentials", is_done));
        let tokens = manager.refresh_token().await.unwrap();
        assert_eq!(*lost.lock().unwrap(), None, "the answer was lost");
        let tokens = serde_json::to_value(tokens).unwrap();
        assert_eq!(tokens["access_token"], held(&client).await);
        access_token(&manager).await.unwrap();
    }
    assert_eq!(issuer.asked(), (1, 2));
}

#[tokio::test]
async fn a_shared_guard_does_not_wait_for_itself() {
    let (client, issuer) = (memory(), Issuer::new());
    log_in(&client, &issuer).await;
    let manager = Arc::new(replica(&client, &issuer).await.0);
    let (one, two) = join(access_token(&manager), access_token(&manager)).await;
    assert_eq!([one.unwrap(), two.unwrap()], ["access-refreshed-1"; 2]);
    assert_eq!(issuer.asked(), (1, 1));
}
