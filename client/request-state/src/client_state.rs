//! What an MCP client must not lose when its process ends: its session, its access tokens, and what it knows of the server.
//!
//! [`ClientStateStore`] is the interface that was proposed to the Java SDK (issue 376), and [`ClientState`] keeps it on a Helve
//! cluster or in memory, so that a client whose process is killed goes on elsewhere without a new login. Everything is sealed on
//! its way out: neither the nodes nor their disks nor who lists the keys see a token.
//!
//! Since protocol 2026-07-28 there are no sessions, and what a client learns of a server is the result of `server/discover`,
//! fresh for as long as the server says ([`set_discover`](ClientStateStore::set_discover)). The session id, and the metadata of
//! `initialize`, are for older servers.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), helve_client::Error> {
//! use helve_client::MemoryBuilder;
//! use helve_request_state::{client_state::*, state_codec::OperatorKey};
//!
//! let client = MemoryBuilder::new().build()?;
//! # let key = [7; 32];
//! let seal = Seal::new(&OperatorKey::new(key)?);
//! let options = ClientStateOptions::new("my-agent", "https://example.com/mcp");
//! let state = ClientState::new(&client, options, seal)?;
//!
//! let issuer = "https://login.example.com";
//! state.set_access_token(issuer, &TokenInfo::new("opaque")).await?;
//! let token = state.get_access_token(issuer).await?.expect("it was just stored");
//! assert_eq!(token.access_token(), "opaque");
//! assert!(state.get_access_token("https://evil.example.com").await?.is_none());
//! # Ok(())
//! # }
//! ```

mod discover;
mod records;
mod seal;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod token;

pub use self::{
    discover::{CacheScope, DISCOVER_TTL_MAX, Discovered},
    records::SealedRecords,
    seal::{Opened, Seal},
    state::{ClientState, ClientStateOptions, IDLE_TTL, TENANT},
    store::{ClientStateStore, ServerMetadata},
    token::TokenInfo,
};
