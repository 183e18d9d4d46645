//! The interface of every store of client state.

use async_trait::async_trait;
use helve_client::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{discover::Discovered, token::TokenInfo};

/// The state of one client towards one server, after `StreamableHttpClientStateStore` of the Java SDK's issue 376: set, get and
/// clear each. Object safe, and shared by all tasks of a client.
///
/// # Where it differs from the proposal
/// - Every method is async and can fail: the state is elsewhere.
/// - Tokens are kept by issuer, as protocol 2026-07-28 demands (SEP-2352): no authorization server is ever sent the token of
///   another.
/// - A token that has expired is not there any more.
/// - There is [`set_discover`](Self::set_discover), for servers that have no `initialize`.
#[async_trait]
pub trait ClientStateStore: Send + Sync {
    /// Keeps the session id that a server before 2026-07-28 returned to `initialize`.
    ///
    /// # Errors
    /// Those of every write.
    async fn set_session_id(&self, session_id: &str) -> Result<(), Error>;

    /// The session id to send, if there is one.
    ///
    /// # Errors
    /// [`Sealed`](helve_client::ErrorKind::Sealed) if it does not open, and those of every read.
    async fn get_session_id(&self) -> Result<Option<String>, Error>;

    /// Forgets the session id: the server says that the session is over.
    ///
    /// # Errors
    /// Those of every write.
    async fn clear_session_id(&self) -> Result<(), Error>;

    /// Keeps an access token that this issuer gave, until it expires.
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if the issuer is empty or the token expires at once, and those of every write.
    async fn set_access_token(&self, issuer: &str, token: &TokenInfo) -> Result<(), Error>;

    /// The access token of this issuer, if there is one that has not expired. Issuers are compared as they are, byte by byte
    /// (RFC 8414, section 3.3).
    ///
    /// # Errors
    /// [`Sealed`](helve_client::ErrorKind::Sealed) if it does not open, and those of every read.
    async fn get_access_token(&self, issuer: &str) -> Result<Option<TokenInfo>, Error>;

    /// Forgets the access token of this issuer: it was revoked, or the server refuses it.
    ///
    /// # Errors
    /// Those of every write.
    async fn clear_access_token(&self, issuer: &str) -> Result<(), Error>;

    /// Keeps what `initialize` negotiated.
    ///
    /// # Errors
    /// Those of every write.
    async fn set_server_metadata(&self, metadata: &ServerMetadata) -> Result<(), Error>;

    /// What `initialize` negotiated, if it is known.
    ///
    /// # Errors
    /// [`Sealed`](helve_client::ErrorKind::Sealed) if it does not open, and those of every read.
    async fn get_server_metadata(&self) -> Result<Option<ServerMetadata>, Error>;

    /// Forgets what `initialize` negotiated: the protocol version does not fit any more, for one.
    ///
    /// # Errors
    /// Those of every write.
    async fn clear_server_metadata(&self) -> Result<(), Error>;

    /// Keeps a result of `server/discover` for as long as its `ttlMs` says, [`DISCOVER_TTL_MAX`](super::DISCOVER_TTL_MAX) at most (SEP-2549). Without
    /// `ttlMs`, or with zero, nothing is kept, and what was kept is forgotten. A result of scope `public` serves all clients of
    /// this server and owner, any other this client alone.
    ///
    /// # Errors
    /// [`Codec`](helve_client::ErrorKind::Codec) if it is no such result, and those of every write.
    async fn set_discover(&self, result: &Value) -> Result<(), Error>;

    /// The result of `server/discover`, if there is one that is fresh.
    ///
    /// # Errors
    /// [`Sealed`](helve_client::ErrorKind::Sealed) if it does not open, and those of every read.
    async fn get_discover(&self) -> Result<Option<Discovered>, Error>;

    /// Forgets the result of `server/discover`, for all clients of this server and owner if its scope was `public`.
    ///
    /// # Errors
    /// Those of every write.
    async fn clear_discover(&self) -> Result<(), Error>;

    /// Ends this object: its calls from now on answer [`Closed`](helve_client::ErrorKind::Closed). The state stays. Closing again does
    /// nothing.
    fn close(&self);
}

/// What a client and a server before 2026-07-28 agreed on in `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerMetadata {
    /// The protocol version.
    pub protocol_version: String,
    /// The server's capabilities, as it stated them.
    pub capabilities: Value,
}
