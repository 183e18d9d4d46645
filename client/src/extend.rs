//! Parts for crates that add stores, state tools or hosts to this one.
//!
//! A [`StateTool`](crate::StateTool) on another store, a [`Backend`](crate::Backend) that wraps another, or a
//! codec needs the same rules as this crate: values that come back as they were stored, loops that end at the
//! caller's deadline, and lifetimes with defaults. Programs that only use stores need nothing from here.

#[cfg(feature = "cluster")]
pub use crate::cluster::{NamedContent, exposed, read_named};
pub use crate::{
    record::{decode, decode_value, encode, present},
    retry::Backoff,
    steps::{Ended, pause, within},
    ttl::Defaults,
};
