//! A budget that is used up, in the words that its caller hears.

use std::fmt;

use crate::bounds::{self, OwnerKind, What};

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Full {
    /// Whose budget it is.
    pub(crate) owner: OwnerKind,
    /// What exceeds its limit.
    pub(crate) what: What,
}

impl fmt::Display for Full {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::RequestBytes => "bytes of requests",
            What::AnswerBytes => "bytes of answers that were not read yet",
            What::ReplyBytes => "bytes of Exchange's answers without values that were not read yet",
            What::Calls => "calls under way",
            What::Streams => "open streams",
            What::Exchanges => "open streams of Exchange or reflection",
            What::Lists => "lists under way",
            What::Watches => "watches",
        };
        let whose = match self.owner {
            OwnerKind::Node => "all callers of this node have",
            OwnerKind::Tenant => "the tenant has",
            OwnerKind::Principal => "this principal has",
            OwnerKind::Address => "this address has",
            OwnerKind::Operators => "the operators have",
            OwnerKind::Strangers => "callers without a credential have",
            OwnerKind::Stranger => "this address has, without a credential,",
        };
        write!(formatter, "{whose} as many {what} as the bound allows")
    }
}

impl Full {
    /// The name of the bound.
    pub(crate) fn bound(self) -> String {
        bounds::name(self.owner, self.what)
    }
}
