//! The carts that one request is about.

use helve_client::{Client, Error, ErrorKind, Handles, Keys, Owner};

use super::{error::ToolError, model::Cart};

/// The prefix of minted cart ids.
pub(super) const ID_PREFIX: &str = "cart";
/// How often a transaction that others overtook is tried again before the caller must call again.
pub(super) const ROUNDS_MAX: usize = 8;

/// One owner's carts, orders and idempotency keys.
pub(super) struct Carts {
    pub(super) client: Client,
    /// Keys know no stores: what is kept under them beside the carts bears this name.
    pub(super) store: String,
    pub(super) owner: Owner,
    pub(super) handles: Handles<Cart>,
    pub(super) keys: Keys,
}

/// Others got ahead every time.
pub(super) fn busy() -> ToolError {
    Error::new(
        ErrorKind::Overloaded,
        "too many callers change this at once",
    )
    .into()
}
