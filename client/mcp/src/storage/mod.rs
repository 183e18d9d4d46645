//! rmcp's storage hooks on a Helve client, so that what an SDK keeps in one process is every replica's.
//!
//! | hook | keeps | here |
//! |---|---|---|
//! | `CredentialStore` | OAuth credentials; one replica at a time refreshes them | [`Credentials`] |
//! | `StateStore` | logins under way (PKCE, CSRF) | [`Logins`] |
//! | `SessionStore` | sessions of clients before protocol 2026-07-28 | [`Sessions`] |
//!
//! A client process that is killed goes on elsewhere without a new login: [`resume`] gives its manager what the other had, and
//! [`connect`] does not even ask the server what it can do.

mod connect;
mod credentials;
mod logins;
mod sessions;
#[cfg(test)]
mod tests;
mod token;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

pub use self::{
    connect::{connect, resume},
    credentials::{Credentials, REFRESH_GUARD_TTL, REFRESH_PATIENCE, was_replaced},
    logins::{LOGIN_TTL, Logins},
    sessions::{SESSIONS, SessionOptions, Sessions},
    token::{ReplicatedAuthClient, access_token},
};

/// What stands for a secret in a name: whoever lists names learns none.
fn digest(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret))
}
