//! One record: what it holds, and what becomes of it as time passes.

use std::fmt;

use bytes::Bytes;
use helve_client::v1::{HandleStatus, RecordInfo};

/// How long the owner of an ended handle hears how it ended.
const TOLD_MS: u64 = 24 * 60 * 60 * 1000;

/// How a record is named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// A handle: for any other owner it does not exist.
    Handle {
        /// Its namespace.
        store: String,
        /// The end user's subject; empty where there is none.
        owner: String,
        /// Its id.
        id: String,
    },
    /// A key of the state tool.
    Key {
        /// The end user's subject; empty where there is none.
        owner: String,
        /// The key.
        key: String,
    },
}

impl Name {
    /// A handle's.
    #[must_use]
    pub fn handle(store: &str, owner: &str, id: &str) -> Self {
        Self::Handle {
            store: store.to_owned(),
            owner: owner.to_owned(),
            id: id.to_owned(),
        }
    }

    /// A key's.
    #[must_use]
    pub fn key(owner: &str, key: &str) -> Self {
        Self::Key {
            owner: owner.to_owned(),
            key: key.to_owned(),
        }
    }

    /// Whether it is a handle's.
    #[must_use]
    pub fn is_handle(&self) -> bool {
        matches!(self, Self::Handle { .. })
    }

    /// The owner.
    #[must_use]
    pub fn owner(&self) -> &str {
        match self {
            Self::Handle { owner, .. } | Self::Key { owner, .. } => owner,
        }
    }

    /// The id, or the key.
    #[must_use]
    pub fn own(&self) -> &str {
        match self {
            Self::Handle { id, .. } => id,
            Self::Key { key, .. } => key,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle { store, owner, id } => write!(f, "handle {store}/{id}").and_then(|()| {
                if owner.is_empty() {
                    Ok(())
                } else {
                    write!(f, " of {owner}")
                }
            }),
            Self::Key { owner, key } => write!(f, "key {key:?}").and_then(|()| {
                if owner.is_empty() {
                    Ok(())
                } else {
                    write!(f, " of {owner}")
                }
            }),
        }
    }
}

/// A time that is known to lie between two others, both included. In milliseconds of replicated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Not before.
    pub from: u64,
    /// Not after.
    pub to: u64,
}

impl Span {
    /// A time that is known.
    #[must_use]
    pub fn at(ms: u64) -> Self {
        Self { from: ms, to: ms }
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self {
            from: self.from.saturating_add(ms),
            to: self.to.saturating_add(ms),
        }
    }

    /// Whether it may be this time.
    #[must_use]
    pub fn may_be(self, ms: u64) -> bool {
        (self.from..=self.to).contains(&ms)
    }
}

/// A record as it was written last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// The value.
    pub value: Bytes,
    /// The log index of the last change of value.
    pub revision: u64,
    /// When it was created.
    pub created_ms: Span,
    /// When its value changed last.
    pub updated_ms: Span,
    /// The absolute deadline.
    pub expires_ms: Option<Span>,
    /// The idle time.
    pub idle_ttl_ms: Option<u64>,
    /// When it expires unless it is renewed.
    pub idle_deadline_ms: Option<Span>,
}

/// The idle deadline of what is renewed now: 1.1 idle times from now, the tenth rounded up.
#[must_use]
pub fn idle_deadline(now: Span, ttl_ms: u64) -> Span {
    now.plus(ttl_ms).plus(ttl_ms.div_ceil(10))
}

impl Row {
    /// At and after it the record is expired.
    #[must_use]
    pub fn deadline(&self) -> Option<Span> {
        match (self.expires_ms, self.idle_deadline_ms) {
            (Some(absolute), Some(idle)) => Some(Span {
                from: absolute.from.min(idle.from),
                to: absolute.to.min(idle.to),
            }),
            (absolute, idle) => absolute.or(idle),
        }
    }

    /// Whether a reply may describe this row so, as far as anyone knows it.
    #[must_use]
    pub fn may_be_told(&self, name: &Name, info: &RecordInfo) -> bool {
        let may_be = |known: Option<Span>, told: Option<u64>| match (known, told) {
            (Some(known), Some(told)) => known.may_be(told),
            (None, None) => true,
            _ => false,
        };
        info.name == name.own()
            && info.owner == name.owner()
            && info.revision == self.revision
            && info.value_bytes == self.value.len() as u64
            && self.created_ms.may_be(info.created_at_ms)
            && self.updated_ms.may_be(info.updated_at_ms)
            && may_be(self.expires_ms, info.expires_at_ms)
            && info.idle_ttl_ms == self.idle_ttl_ms
            && may_be(self.idle_deadline_ms, info.idle_deadline_ms)
    }

    /// The row's description, where all is known.
    #[must_use]
    pub fn info(&self, name: &Name) -> RecordInfo {
        RecordInfo {
            name: name.own().to_owned(),
            owner: name.owner().to_owned(),
            revision: self.revision,
            created_at_ms: self.created_ms.from,
            updated_at_ms: self.updated_ms.from,
            expires_at_ms: self.expires_ms.map(|span| span.from),
            idle_ttl_ms: self.idle_ttl_ms,
            idle_deadline_ms: self.idle_deadline_ms.map(|span| span.from),
            value_bytes: self.value.len() as u64,
            ..RecordInfo::default()
        }
    }
}

/// What is stored under a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Cell {
    /// Nothing, and nothing is told of it.
    #[default]
    Empty,
    /// What was written last, expired or not.
    Written(Row),
    /// A handle's value was taken then.
    Taken(Span),
}

impl Cell {
    /// What may be told of it at this time: one status if all is known.
    #[must_use]
    pub fn statuses(&self, name: &Name, clock: Span) -> Vec<HandleStatus> {
        let (live_until, ended, ended_ms) = match self {
            Self::Empty => return vec![HandleStatus::Unknown],
            Self::Taken(at) => (None, HandleStatus::Taken, *at),
            Self::Written(row) => match row.deadline() {
                None => return vec![HandleStatus::Live],
                Some(deadline) => (Some(deadline), HandleStatus::Expired, deadline),
            },
        };
        let is_handle = name.is_handle();
        let mut statuses = Vec::with_capacity(1);
        if live_until.is_some_and(|deadline| clock.from < deadline.to) {
            statuses.push(HandleStatus::Live);
        }
        let has_ended = live_until.is_none() || ended_ms.from <= clock.to;
        let told = ended_ms.plus(TOLD_MS);
        if has_ended && is_handle && clock.from < told.to {
            statuses.push(ended);
        }
        if has_ended && (!is_handle || told.from <= clock.to) {
            statuses.push(HandleStatus::Unknown);
        }
        statuses
    }

    /// The row, if it was written last, expired or not.
    #[must_use]
    pub fn row(&self) -> Option<&Row> {
        match self {
            Self::Written(row) => Some(row),
            Self::Empty | Self::Taken(_) => None,
        }
    }
}
