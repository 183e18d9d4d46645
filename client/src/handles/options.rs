//! What a store of handles is.

use std::time::Duration;

use crate::{owner::Owner, ttl::Defaults};

/// What a store of handles is.
#[derive(Debug, Clone)]
pub struct HandleOptions {
    pub(crate) store: String,
    pub(crate) owner: Owner,
    pub(super) id_prefix: String,
    pub(crate) defaults: Defaults,
}

impl HandleOptions {
    /// The store of this name: 1 to 64 bytes of `[a-z0-9_-]`. All calls are about this owner's handles: those of another are unknown to
    /// it. No id prefix, no lifetimes. Names are checked by the first call.
    pub fn new(store: impl Into<String>, owner: impl Into<Owner>) -> Self {
        Self {
            store: store.into(),
            owner: owner.into(),
            id_prefix: String::new(),
            defaults: Defaults::default(),
        }
    }

    /// As [`new`](Self::new), for handles that all callers share: of [`Owner::shared`].
    pub fn shared(store: impl Into<String>) -> Self {
        Self::new(store, Owner::shared())
    }

    /// What [`Ttl::Default`](crate::Ttl::Default) means. Without it: for ever.
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Some(ttl);
        self
    }

    /// Handles that are not read or written for this long expire, whatever their [`Ttl`](crate::Ttl). A get restarts the time.
    #[must_use]
    pub fn idle_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.idle_ttl = Some(ttl);
        self
    }

    /// Minted ids begin with `prefix-`: at most 64 bytes of `[a-z0-9_-]`.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = prefix.into();
        self
    }

    /// The same options for another owner.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Owner>) -> Self {
        self.owner = owner.into();
        self
    }
}
