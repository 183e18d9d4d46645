//! The access token that replicas share, for the tasks that make requests.

use std::{collections::HashMap, sync::Arc};

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        auth::{AuthClient, AuthError, AuthorizationManager},
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::{Error as SseError, Sse};

use super::credentials::was_replaced;

/// How often a request may find that other replicas were faster, each time with another token.
const ROUNDS_MAX: usize = 4;

/// The access token: the stored one, or, when that is about to expire, the one that this replica or another obtains now.
///
/// # Errors
/// As `AuthorizationManager::get_access_token`.
pub async fn access_token(manager: &AuthorizationManager) -> Result<String, AuthError> {
    let mut round = 1;
    loop {
        match manager.get_access_token().await {
            Err(error) if round < ROUNDS_MAX && was_replaced(&error) => round += 1,
            outcome => return outcome,
        }
    }
}

/// rmcp's [`AuthClient`] over [`Credentials`](super::Credentials) that other replicas use, too: a request that finds its token
/// replaced by another replica is made with the new one. It had not been sent, or the server had refused it unseen.
#[derive(Debug, Clone)]
pub struct ReplicatedAuthClient<C> {
    inner: AuthClient<C>,
}

impl<C> ReplicatedAuthClient<C> {
    /// Requests of this client, with this manager's tokens.
    #[must_use]
    pub fn new(http_client: C, manager: AuthorizationManager) -> Self {
        Self {
            inner: AuthClient::new(http_client, manager),
        }
    }
}

async fn with_newest_token<T, E, Call>(call: impl Fn() -> Call) -> Result<T, StreamableHttpError<E>>
where
    E: std::error::Error + Send + Sync + 'static,
    Call: Future<Output = Result<T, StreamableHttpError<E>>>,
{
    let mut round = 1;
    loop {
        match call().await {
            Err(StreamableHttpError::Auth(error)) if round < ROUNDS_MAX && was_replaced(&error) => {
                round += 1;
            }
            outcome => return outcome,
        }
    }
}

impl<C: StreamableHttpClient + Send + Sync> StreamableHttpClient for ReplicatedAuthClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        with_newest_token(|| {
            self.inner.post_message(
                uri.clone(),
                message.clone(),
                session_id.clone(),
                auth_header.clone(),
                headers.clone(),
            )
        })
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        bytes_max: usize,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<C::Error>> {
        with_newest_token(|| {
            self.inner.post_message_with_max_sse_event_size(
                uri.clone(),
                message.clone(),
                session_id.clone(),
                auth_header.clone(),
                headers.clone(),
                bytes_max,
            )
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<C::Error>> {
        with_newest_token(|| {
            self.inner.delete_session(
                uri.clone(),
                session_id.clone(),
                auth_header.clone(),
                headers.clone(),
            )
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<C::Error>> {
        with_newest_token(|| {
            self.inner.get_stream(
                uri.clone(),
                session_id.clone(),
                last_event_id.clone(),
                auth_header.clone(),
                headers.clone(),
            )
        })
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        bytes_max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<C::Error>> {
        with_newest_token(|| {
            self.inner.get_stream_with_max_sse_event_size(
                uri.clone(),
                session_id.clone(),
                last_event_id.clone(),
                auth_header.clone(),
                headers.clone(),
                bytes_max,
            )
        })
        .await
    }
}
