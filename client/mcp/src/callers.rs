//! Whose records a request is about.

use helve_client::Owner;
use rmcp::model::Extensions;

use crate::bearer::Principal;

/// Whose records a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callers {
    /// Everybody is this owner.
    One(Owner),
    /// The principal that the [guard](crate::bearer::Guard) before the server put into the request. Without one the request is refused,
    /// whatever was left out: no caller reaches others' records for want of a name.
    Authenticated,
}

impl Callers {
    /// The owner, if the request may be about any.
    #[must_use]
    pub fn of(&self, principal: Option<&Principal>) -> Option<Owner> {
        match self {
            Self::One(owner) => Some(owner.clone()),
            Self::Authenticated => principal.map(|principal| Owner::named(principal.owner())),
        }
    }

    pub(crate) fn owner(&self, extensions: &Extensions) -> Option<Owner> {
        self.of(Principal::of(extensions))
    }
}
