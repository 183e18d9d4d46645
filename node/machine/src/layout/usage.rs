//! Keys of the rows that count what is in use.

use bytes::Bytes;

use super::{Space, Span, USAGE_OWNER, USAGE_PRINCIPAL, USAGE_SESSIONS, USAGE_STORE, USAGE_TENANT};

impl<'a> Space<'a> {
    /// The keys of its counters.
    pub(crate) fn usage(self) -> UsageKeys<'a> {
        UsageKeys(self)
    }
}

/// The keys of the rows that count what is in use in a space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsageKeys<'a>(Space<'a>);

impl UsageKeys<'_> {
    pub(crate) fn tenant(self) -> Bytes {
        self.0.table(USAGE_TENANT).into()
    }

    pub(crate) fn sessions(self) -> Bytes {
        self.0.table(USAGE_SESSIONS).into()
    }

    pub(crate) fn principal(self, principal: &[u8]) -> Bytes {
        self.0.row(USAGE_PRINCIPAL, principal)
    }

    pub(crate) fn store(self, store_path: &[u8]) -> Bytes {
        self.0.row(USAGE_STORE, store_path)
    }

    /// What each store of the tenant holds.
    pub(crate) fn stores(self) -> Span {
        Span::of_prefix(self.0.table(USAGE_STORE))
    }

    pub(crate) fn owner(self, owner_path: &[u8]) -> Bytes {
        self.0.row(USAGE_OWNER, owner_path)
    }
}
