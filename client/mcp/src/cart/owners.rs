//! Whose carts a request is about.

use http::request::Parts;

use crate::{bearer::Principal, cart::error::ToolError};

/// Says whose carts a request is about: the verified subject of its credential.
pub trait Owners: Send + Sync {
    /// The owner of the carts that this request may see; empty where there is none. `parts` are the HTTP request's; none on
    /// other transports.
    ///
    /// # Errors
    /// If the credential is missing or does not hold.
    fn owner(&self, parts: Option<&Parts>) -> Result<String, ToolError>;
}

/// No authentication: all callers are one, with an empty owner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Anonymous;

impl Owners for Anonymous {
    fn owner(&self, _: Option<&Parts>) -> Result<String, ToolError> {
        Ok(String::new())
    }
}

/// The subject of the token that a [`Guard`](crate::bearer::Guard) let pass. Without a guard in front nobody owns anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Authenticated;

impl Owners for Authenticated {
    fn owner(&self, parts: Option<&Parts>) -> Result<String, ToolError> {
        parts
            .and_then(|parts| parts.extensions.get::<Principal>())
            .map(|principal| principal.subject().to_owned())
            .ok_or_else(|| ToolError::Denied {
                message: "carts belong to authenticated callers".to_owned(),
            })
    }
}
