//! Who may do what: tokens, and the tenants that they belong to.
//!
//! The machine keeps them and does not ask for them: a host looks a token up before it proposes. That a token was revoked is an entry
//! of the log like any other.

pub(crate) mod excess;
pub(crate) mod quota;
pub(crate) mod room;
pub(crate) mod set_tenant;
pub(crate) mod tenants;
pub(crate) mod tokens;

pub use tenants::quotas;
pub use tokens::granted;

use crate::{fault::Fault, layout::Group, limits::DEFAULT_TENANT, view::View};

/// Whether there are tokens, or tenants beyond the default one: the operator who made them expects
/// every node to authenticate callers. A token that was revoked counts as long as its row stays,
/// which is a day.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn is_guarded(view: &impl View, group_id: u32) -> Result<bool, Fault> {
    let group = Group(group_id);
    let (tokens, tenants) = (group.tokens(), group.tenants());
    if !view.range(&tokens.prefix, &tokens.end, 1)?.is_empty() {
        return Ok(true);
    }
    let is_own = |key: &[u8]| key[tenants.prefix.len()..] != *DEFAULT_TENANT.as_bytes();
    let first = view.range(&tenants.prefix, &tenants.end, 2)?;
    Ok(first.iter().any(|(key, _)| is_own(key)))
}
