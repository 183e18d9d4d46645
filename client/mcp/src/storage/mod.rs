//! rmcp's storage hooks on a Helve client, so that what an SDK keeps in one process is every replica's.
//!
//! | hook | keeps | here |
//! |---|---|---|
//! | `CredentialStore` | OAuth credentials; one replica at a time refreshes them | `Credentials` |
//! | `StateStore` | logins under way (PKCE, CSRF) | `Logins` |
//! | `SessionStore` | sessions of clients before protocol 2026-07-28 | [`Sessions`] |
//!
//! A client process that is killed goes on elsewhere without a new login: `resume` gives its manager what the other had, and
//! `connect` does not even ask the server what it can do. All but [`Sessions`] need the feature `oauth-client`.

#[cfg(feature = "oauth-client")]
mod connect;
#[cfg(feature = "oauth-client")]
mod credentials;
mod digest;
#[cfg(feature = "oauth-client")]
mod logins;
mod sessions;
#[cfg(all(test, feature = "oauth-client"))]
mod tests;
#[cfg(feature = "oauth-client")]
mod token;

pub use self::sessions::{SESSIONS, SessionOptions, Sessions};
#[cfg(feature = "oauth-client")]
pub use self::{
    connect::{connect, resume},
    credentials::{Credentials, REFRESH_GUARD_TTL, REFRESH_PATIENCE, was_replaced},
    logins::{LOGIN_TTL, Logins},
    token::{ReplicatedAuthClient, access_token},
};
