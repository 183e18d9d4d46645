//! The Java SDK's client state store, as it was proposed in issue 376.

use std::sync::Arc;

use helve_client::{Error, ErrorKind};
use serde_json::json;

use crate::setup::{SHORT, Setup, wait_until};
use helve_request_state::{
    client_state::{
        CacheScope, ClientState, ClientStateOptions, ClientStateStore, Seal, ServerMetadata,
        TokenInfo,
    },
    state_codec::OperatorKey,
};

const SERVER: &str = "https://example.com/mcp";
const ISSUER: &str = "https://login.example.com";

/// A process of the client of this name, which reaches the host through this node.
fn process(setup: &Setup, node: usize, name: &str) -> Result<Arc<dyn ClientStateStore>, Error> {
    let options = ClientStateOptions::new(name, SERVER).owner(&setup.name);
    let seal = Seal::new(&OperatorKey::new([7; 32])?);
    let state = ClientState::new(&setup.client(node), options, seal)?;
    Ok(Arc::new(state))
}

pub(super) async fn what_one_process_set_another_gets_until_it_is_cleared(
    setup: Setup,
) -> Result<(), Error> {
    let (first, second) = (process(&setup, 0, "me")?, process(&setup, 1, "me")?);
    let metadata = ServerMetadata {
        protocol_version: "2025-06-18".to_owned(),
        capabilities: json!({"tools": {"listChanged": true}}),
    };
    let discover = json!({"supportedVersions": ["2026-07-28"], "ttlMs": 3_600_000});
    assert_eq!(second.get_session_id().await?, None);
    for round in ["one", "two"] {
        first.set_session_id(round).await?;
        first
            .set_access_token(ISSUER, &TokenInfo::new(round))
            .await?;
        first.set_server_metadata(&metadata).await?;
        first.set_discover(&discover).await?;
        assert_eq!(second.get_session_id().await?.as_deref(), Some(round));
        let token = second.get_access_token(ISSUER).await?;
        assert_eq!(token, Some(TokenInfo::new(round)));
        assert_eq!(
            second.get_server_metadata().await?.as_ref(),
            Some(&metadata)
        );
        let found = second.get_discover().await?.map(|it| (it.result, it.scope));
        assert_eq!(found, Some((discover.clone(), CacheScope::Private)));
    }
    second.clear_session_id().await?;
    second.clear_access_token(ISSUER).await?;
    second.clear_server_metadata().await?;
    second.clear_discover().await?;
    second.clear_discover().await?;
    assert_eq!(first.get_session_id().await?, None);
    assert_eq!(first.get_access_token(ISSUER).await?, None);
    assert_eq!(first.get_server_metadata().await?, None);
    assert_eq!(first.get_discover().await?, None);
    first.close();
    let closed = first.get_session_id().await.err().map(|error| error.kind());
    assert_eq!(closed, Some(ErrorKind::Closed));
    Ok(())
}

pub(super) async fn a_token_is_that_of_its_client_and_issuer(setup: Setup) -> Result<(), Error> {
    let (me, you) = (process(&setup, 0, "me")?, process(&setup, 1, "you")?);
    me.set_access_token(ISSUER, &TokenInfo::new("mine")).await?;
    you.set_access_token(ISSUER, &TokenInfo::new("yours"))
        .await?;
    me.set_access_token("other", &TokenInfo::new("other"))
        .await?;
    for (process, issuer, token) in [
        (&me, ISSUER, Some("mine")),
        (&me, "other", Some("other")),
        (&me, "https://login.example.com/", None),
        (&you, ISSUER, Some("yours")),
        (&you, "other", None),
    ] {
        let found = process.get_access_token(issuer).await?;
        assert_eq!(found, token.map(TokenInfo::new), "of {issuer}");
    }
    Ok(())
}

pub(super) async fn what_has_expired_is_not_there_any_more(setup: Setup) -> Result<(), Error> {
    let me = process(&setup, 0, "me")?;
    let token = TokenInfo::new("short").with_expires_in(SHORT);
    me.set_access_token(ISSUER, &token).await?;
    let discover = json!({"ttlMs": 200, "cacheScope": "public"});
    me.set_discover(&discover).await?;
    wait_until("the token to expire", async || {
        Ok(me.get_access_token(ISSUER).await?.is_none())
    })
    .await?;
    wait_until("the server's metadata to become stale", async || {
        Ok(me.get_discover().await?.is_none())
    })
    .await
}
