//! Who may do what: tokens, and the tenants that they belong to.
//!
//! The machine keeps them and does not ask for them: a host looks a token up before it proposes. That a token was revoked is an entry
//! of the log like any other.

pub(crate) mod quota;
pub(crate) mod tenants;
pub(crate) mod tokens;

pub use tenants::quotas;
pub use tokens::granted;
