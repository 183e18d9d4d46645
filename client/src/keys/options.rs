//! What a store of keys is told.

use std::time::Duration;

use crate::{owner::Owner, ttl::Defaults};

/// Whose keys, and how long they live.
#[derive(Debug, Clone)]
pub struct KeyOptions {
    pub(super) owner: Owner,
    pub(super) defaults: Defaults,
}

impl KeyOptions {
    /// All calls are about this owner's keys: every owner has keys of their own. No lifetimes. The name is checked by the first call.
    pub fn new(owner: impl Into<Owner>) -> Self {
        Self {
            owner: owner.into(),
            defaults: Defaults::default(),
        }
    }

    /// As [`new`](Self::new), for keys that all callers share: of [`Owner::shared`].
    #[must_use]
    pub fn shared() -> Self {
        Self::new(Owner::shared())
    }

    /// What [`Ttl::Default`](crate::Ttl::Default), and so every plain store, means. Without it: for
    /// ever.
    #[must_use]
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Some(ttl);
        self
    }

    /// Keys that are not retrieved or stored for this long expire, whatever their
    /// [`Ttl`](crate::Ttl).
    #[must_use]
    pub fn idle_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.idle_ttl = Some(ttl);
        self
    }

    /// The same options for another owner.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Owner>) -> Self {
        self.owner = owner.into();
        self
    }
}
