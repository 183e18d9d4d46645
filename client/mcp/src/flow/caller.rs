//! A real MCP client that calls again, with the same arguments, when a call's fate is not known.

use std::{
    error::Error,
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ContentBlock,
        Implementation, JsonObject, ProtocolVersion,
    },
    service::{ClientInitializeError, RunningService},
    transport::{
        DynamicTransportError, StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::cart::{REASON, UNAVAILABLE};

/// How long one attempt may take before the call is made again.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(8);
/// Pauses between attempts: the first, doubled up to the last.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(320);

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The tool says no; calling again would not help.
    #[error("{reason}: {message}")]
    Refused {
        /// The tool error's reason; empty if it gave none.
        reason: String,
        /// Its text.
        message: String,
    },
    /// The time is up, and the call's fate is not known.
    #[error("no answer after {attempts} attempts; at last: {last}")]
    GaveUp {
        /// How often it was sent.
        attempts: u64,
        /// How the last attempt failed.
        last: String,
    },
    /// The answer is not what the tool's schema promises.
    #[error("malformed answer: {0}")]
    Malformed(String),
}

enum Attempt {
    Done(Box<CallToolResult>),
    Again(String),
    Refused(CallError),
}

/// An MCP client of one server, which it may reach through a balancer.
pub struct Caller {
    uri: Arc<str>,
    patience: Duration,
    retries: Arc<AtomicU64>,
    http: reqwest::Client,
    client: Option<RunningService<RoleClient, ClientConfig>>,
}

impl Caller {
    /// A client of the MCP endpoint at `uri` that makes a call again for up to `patience`, and counts each repetition.
    ///
    /// # Panics
    /// If the HTTP client cannot be built, which without TLS does not happen.
    #[must_use]
    pub fn new(uri: &str, patience: Duration, retries: Arc<AtomicU64>) -> Self {
        // No pool: each request is a connection of its own, and so another replica. No proxy: it would balance, too.
        let http = reqwest::Client::builder()
            .pool_max_idle_per_host(0)
            .no_proxy()
            .build()
            .expect("a client without TLS needs nothing from its surroundings");
        Self {
            uri: uri.into(),
            patience,
            retries,
            http,
            client: None,
        }
    }

    /// Calls a tool until its fate is known.
    ///
    /// # Errors
    /// If the tool refuses, or no attempt was answered in time.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        tool: &'static str,
        arguments: JsonObject,
    ) -> Result<T, CallError> {
        let deadline = Instant::now() + self.patience;
        let mut pause = PAUSE_MIN;
        for attempts in 1.. {
            let attempt = tokio::time::timeout(ATTEMPT_TIMEOUT, self.attempt(tool, &arguments));
            let last = match attempt.await {
                Ok(Attempt::Done(result)) => {
                    return result.into_typed().map_err(|error| malformed(&error));
                }
                Ok(Attempt::Refused(error)) => return Err(error),
                Ok(Attempt::Again(why)) => why,
                Err(_) => "timed out".to_owned(),
            };
            if Instant::now() + pause >= deadline {
                return Err(CallError::GaveUp { attempts, last });
            }
            tracing::debug!(tool, last, "calling again");
            self.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        unreachable!("the loop ends by its deadline")
    }

    async fn attempt(&mut self, tool: &'static str, arguments: &JsonObject) -> Attempt {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments.clone());
        let client = match self.connect().await {
            Ok(client) => client,
            Err(CallError::GaveUp { last, .. }) => return Attempt::Again(last),
            Err(error) => return Attempt::Again(error.to_string()),
        };
        match client.call_tool(params).await {
            Ok(result) if result.is_error == Some(true) => tool_error(&result),
            Ok(result) => Attempt::Done(Box::new(result)),
            Err(ServiceError::McpError(error)) => Attempt::Refused(CallError::Refused {
                reason: format!("JSON-RPC {}", error.code.0),
                message: error.message.into_owned(),
            }),
            Err(ServiceError::TransportSend(error)) => Attempt::Again(unsent(&error)),
            Err(error) => {
                self.client = None;
                Attempt::Again(error.to_string())
            }
        }
    }

    /// The connected client, for what is not a tool call. Connects if it is not connected.
    ///
    /// # Errors
    /// [`GaveUp`](CallError::GaveUp) after one attempt that failed.
    pub async fn connect(
        &mut self,
    ) -> Result<&RunningService<RoleClient, ClientConfig>, CallError> {
        if self.client.is_none() {
            let config = StreamableHttpClientTransportConfig::with_uri(self.uri.clone());
            let transport = StreamableHttpClientTransport::with_client(self.http.clone(), config);
            let info = ClientConfig::new(
                ClientCapabilities::default(),
                Implementation::new("helve-flow", env!("CARGO_PKG_VERSION")),
            );
            let discover = ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            };
            let client = info.serve_with_lifecycle(transport, discover).await;
            let gave_up = |error: ClientInitializeError| CallError::GaveUp {
                attempts: 1,
                last: unconnected(&error),
            };
            self.client = Some(client.map_err(gave_up)?);
        }
        Ok(self.client.as_ref().expect("connected above"))
    }
}

/// Why there is no connection, in plain words.
fn unconnected(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => unsent(error),
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_) => {
            "the answer is none of an MCP server's".to_owned()
        }
        error => error.to_string(),
    }
}

/// Why a request was not sent, in the words of the first cause. What rmcp says of it names the
/// types of its transport.
fn unsent(error: &DynamicTransportError) -> String {
    type Failed = StreamableHttpError<reqwest::Error>;
    let cause: &(dyn Error + 'static) = match error.error.downcast_ref::<Failed>() {
        // It names no source.
        Some(Failed::Client(error)) => error,
        _ => &*error.error,
    };
    let first = iter::successors(Some(cause), |&error| error.source()).last();
    let said = first.unwrap_or(cause).to_string();
    match said.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => said,
    }
}

fn tool_error(result: &CallToolResult) -> Attempt {
    let message: String = result
        .content
        .iter()
        .filter_map(ContentBlock::as_text)
        .map(|text| &*text.text)
        .collect();
    let reason = result
        .meta
        .as_ref()
        .and_then(|meta| meta.0.get(REASON)?.as_str())
        .unwrap_or_default()
        .to_owned();
    if reason == UNAVAILABLE {
        Attempt::Again(message)
    } else {
        Attempt::Refused(CallError::Refused { reason, message })
    }
}

fn malformed(error: &impl std::fmt::Display) -> CallError {
    CallError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn port_without_a_server_is_told_in_plain_words() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        drop(listener);
        let uri = format!("http://{address}/mcp");
        let mut caller = Caller::new(&uri, Duration::ZERO, Arc::default());
        let called = caller.call::<Value>("view_cart", JsonObject::new()).await;
        let why = called.expect_err("nothing listens").to_string();
        assert_eq!(
            why,
            "no answer after 1 attempts; at last: Connection refused"
        );
    }
}
