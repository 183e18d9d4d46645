//! Whose carts a request is about.

use helve_client::Owner;
use http::request::Parts;

use crate::{bearer::Principal, cart::error::ToolError};

/// Says whose carts a request is about: the verified subject of its credential.
pub trait Owners: Send + Sync {
    /// The owner of the carts that this request may see. `parts` are the HTTP request's; none on other transports.
    ///
    /// # Errors
    /// If the credential is missing or does not hold.
    fn owner(&self, parts: Option<&Parts>) -> Result<Owner, ToolError>;
}

/// No authentication: all callers share all carts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Anonymous;

impl Owners for Anonymous {
    fn owner(&self, _: Option<&Parts>) -> Result<Owner, ToolError> {
        Ok(Owner::shared())
    }
}

/// The subject of the token that a [`Guard`](crate::bearer::Guard) let pass. Without a guard in
/// front no caller owns anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Authenticated;

impl Owners for Authenticated {
    fn owner(&self, parts: Option<&Parts>) -> Result<Owner, ToolError> {
        parts
            .and_then(|parts| parts.extensions.get::<Principal>())
            .map(|principal| Owner::named(principal.owner()))
            .ok_or_else(|| ToolError::Denied {
                message: "carts belong to authenticated callers".to_owned(),
            })
    }
}
