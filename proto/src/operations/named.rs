//! Which record a message names.

/// A record as a message names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// A handle.
    Handle {
        /// Its store.
        store: &'a str,
        /// Its owner.
        owner: &'a str,
        /// Its id.
        id: &'a str,
    },
    /// A handle that is only to be minted.
    Minted {
        /// Its store.
        store: &'a str,
        /// Its owner.
        owner: &'a str,
        /// How its id will begin; empty: with no prefix.
        id_prefix: &'a str,
    },
    /// A key of the state tool.
    Key {
        /// Its owner.
        owner: &'a str,
        /// The key.
        key: &'a str,
    },
}
