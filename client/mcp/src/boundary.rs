//! The boundary between an MCP server and its clients, as far as `requestState` goes (SEP-2322).
//!
//! A [`Boundary`] is in front of a server. What the server's handlers put into an
//! `InputRequiredResult` leaves sealed, bound to the end user, to this server and to the very
//! request; what a client echoes is opened before any handler runs, so that handlers see their own
//! plain state, or none. An echo that does not hold is answered with one constant error, whatever
//! is wrong with it:
//!
//! ```json
//! {"code": -32602, "message": "Invalid or expired requestState", "data": {"reason": "invalid_request_state"}}
//! ```
//!
//! The same words as the Python SDK's. The true reason is in the log alone.

mod forward;

use std::{fmt, sync::Arc, time::Instant};

use helve_http::LogThrottle;
use helve_request_state::state_codec::{ArgumentsDigest, Refusal, StateCodec, StateContext};
use rmcp::{
    ErrorData,
    model::{Extensions, InputRequiredResult, JsonObject},
};
use serde_json::{Value, json};

use crate::excerpt::Excerpt;

/// Each kind of refusal has one line in the log for many.
static REFUSED: LogThrottle = LogThrottle::new();
static UNCHECKED: LogThrottle = LogThrottle::new();
static UNSEALED: LogThrottle = LogThrottle::new();

/// The message of the one error for every echo that does not hold.
pub const INVALID_STATE: &str = "Invalid or expired requestState";
/// The message of the error for an echo that could not be checked: nothing is wrong with it, and it may be sent again.
pub const UNCHECKED_STATE: &str = "requestState cannot be checked now: send the request again";

/// Says whose request it is: the verified subject of its credential, never what the client says of itself.
pub trait Subjects: Send + Sync {
    /// The end user; none where requests are not authenticated. `extensions` are the request's: over HTTP they hold its
    /// [`Parts`](http::request::Parts).
    ///
    /// # Errors
    /// If the credential does not hold, with the reason for the log.
    fn subject(&self, extensions: &Extensions) -> Result<Option<String>, Unverified>;
}

/// A credential that does not hold, and why.
#[derive(Debug, thiserror::Error)]
#[error("the subject is not verified: {0}")]
pub struct Unverified(pub String);

/// Requests are not authenticated: states are bound to the server and the request alone, and any
/// caller that has one may redeem it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unauthenticated;

impl Subjects for Unauthenticated {
    fn subject(&self, _: &Extensions) -> Result<Option<String>, Unverified> {
        Ok(None)
    }
}

/// A server behind the boundary. Clones, and replicas with the same keys and audience, redeem each other's states.
#[derive(Clone)]
pub struct Boundary<S> {
    server: S,
    codec: Arc<dyn StateCodec>,
    audience: Arc<str>,
    subjects: Arc<dyn Subjects>,
}

impl<S> Boundary<S> {
    /// This server, its states sealed by this codec for this audience: a name that all replicas of the server share and no other
    /// server has. States that must be redeemed at most once take a codec that is
    /// [`SingleUse`](helve_request_state::state_codec::SingleUse).
    #[must_use]
    pub fn new(server: S, codec: Arc<dyn StateCodec>, audience: &str) -> Self {
        Self {
            server,
            codec,
            audience: audience.into(),
            subjects: Arc::new(Unauthenticated),
        }
    }

    /// Binds states to the end users that these say.
    #[must_use]
    pub fn subjects(mut self, subjects: Arc<dyn Subjects>) -> Self {
        self.subjects = subjects;
        self
    }

    fn subject(&self, extensions: &Extensions) -> Result<Option<String>, ErrorData> {
        self.subjects.subject(extensions).map_err(|error| {
            if let Some(count) = REFUSED.count(Instant::now()) {
                let error = Excerpt::reason(error);
                tracing::warn!(count, %error, "requestStates were refused, the last one for its caller");
            }
            invalid()
        })
    }
}

/// The error for every echo that does not hold: the same bytes whatever is wrong with it.
fn invalid() -> ErrorData {
    ErrorData::invalid_params(
        INVALID_STATE,
        Some(json!({"reason": "invalid_request_state"})),
    )
}

/// What a request's states are bound to.
struct Bound<'a, S> {
    boundary: &'a Boundary<S>,
    subject: Option<String>,
    method: &'static str,
    target: String,
    arguments: ArgumentsDigest,
}

impl<S> Boundary<S> {
    fn bound(
        &self,
        extensions: &Extensions,
        method: &'static str,
        target: &str,
        arguments: Option<&JsonObject>,
    ) -> Result<Bound<'_, S>, ErrorData> {
        // No arguments and empty ones are the same request.
        let arguments = Value::Object(arguments.cloned().unwrap_or_default());
        Ok(Bound {
            boundary: self,
            subject: self.subject(extensions)?,
            method,
            target: target.to_owned(),
            arguments: ArgumentsDigest::of(&arguments),
        })
    }
}

impl<S> Bound<'_, S> {
    fn context(&self) -> StateContext<'_> {
        let context = StateContext::new()
            .audience(&self.boundary.audience)
            .method(self.method)
            .target(&self.target)
            .arguments(self.arguments);
        match &self.subject {
            Some(subject) => context.subject(subject),
            None => context,
        }
    }

    /// Puts the handler's own state in the place of the echo, or refuses the request.
    async fn open(&self, echoed: &mut Option<String>) -> Result<(), ErrorData> {
        let Some(sealed) = echoed.take() else {
            return Ok(());
        };
        match self.boundary.codec.decode(&sealed, &self.context()).await {
            Ok(opened) => {
                *echoed = Some(opened.state);
                Ok(())
            }
            Err(Refusal::Unavailable(error)) => {
                if let Some(count) = UNCHECKED.count(Instant::now()) {
                    let target_name = Excerpt::name(&self.target);
                    tracing::warn!(count, %error, method = self.method, %target_name, "requestStates cannot be checked, the last one of this call");
                }
                let data = json!({"reason": "unavailable"});
                Err(ErrorData::internal_error(UNCHECKED_STATE, Some(data)))
            }
            Err(reason) => {
                if let Some(count) = REFUSED.count(Instant::now()) {
                    let target_name = Excerpt::name(&self.target);
                    tracing::warn!(count, %reason, method = self.method, %target_name, "requestStates were refused, the last one of this call");
                }
                Err(invalid())
            }
        }
    }

    /// Seals what the handler wants echoed.
    async fn seal(&self, result: &mut InputRequiredResult) -> Result<(), ErrorData> {
        let Some(state) = result.request_state.take() else {
            return Ok(());
        };
        match self.boundary.codec.encode(&state, &self.context()).await {
            Ok(sealed) => {
                result.request_state = Some(sealed);
                Ok(())
            }
            Err(error) => {
                if let Some(count) = UNSEALED.count(Instant::now()) {
                    let target_name = Excerpt::name(&self.target);
                    tracing::error!(count, %error, method = self.method, %target_name, "requestStates cannot be sealed, the last one of this call");
                }
                let message = "requestState cannot be sealed now";
                Err(ErrorData::internal_error(message, None))
            }
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Boundary<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary")
            .field("server", &self.server)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}
