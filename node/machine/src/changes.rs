//! Changes of records, as commands make them: what a host tells those who watch.
//!
//! Each command's changes are a function of the log, so every replica lists the same ones in the same order. A host that
//! keeps the last of them can go on where another one stopped.

use bytes::Bytes;
use helve_proto::{
    command::v1::RecordRow,
    v1::{Change, ChangeKind, RecordInfo, WatchRequest, watch_request::Target as Watched},
};

use crate::{
    layout::{Group, Kind, Place, Space, Target, owner_path, split_owner, split_store, store_path},
    row,
};

/// A change of one record. It holds no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    kind: ChangeKind,
    /// The record's row, which names the tenant and the record.
    key: Bytes,
    /// What is known of the record that was put.
    put: Option<Put>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Put {
    created_at_ms: u64,
    updated_at_ms: u64,
    expires_at_ms: Option<u64>,
    idle_ttl_ms: Option<u64>,
    idle_deadline_ms: Option<u64>,
    value_bytes: u64,
}

impl RecordChange {
    pub(crate) fn put(key: Bytes, record: &RecordRow) -> Self {
        let put = Put {
            created_at_ms: record.created_at_ms,
            updated_at_ms: record.updated_at_ms,
            expires_at_ms: record.expires_at_ms,
            idle_ttl_ms: record.idle_ttl_ms,
            idle_deadline_ms: record.idle_deadline_ms,
            value_bytes: row::plain_bytes(record) as u64,
        };
        Self {
            kind: ChangeKind::Put,
            key,
            put: Some(put),
        }
    }

    pub(crate) fn end(kind: ChangeKind, key: Bytes) -> Self {
        Self {
            kind,
            key,
            put: None,
        }
    }

    /// Bytes that it takes up in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len()
    }

    /// Whose record changed, in the bytes of its row's key; `None` if that names no record, which no
    /// change of this group does.
    pub(crate) fn tenant(&self, group_id: u32) -> Option<Bytes> {
        let (tenant, _) = Group(group_id).parse(&self.key)?;
        Some(self.key.slice_ref(tenant.as_bytes()))
    }

    /// The change as callers are told it: of the command with this log index, the one of this number from 0.
    ///
    /// `None` if its key names no record, which no change of this group does.
    #[must_use]
    pub fn told(&self, group_id: u32, revision: u64, ordinal: u32) -> Option<Change> {
        let (_, Place::Record(target)) = Group(group_id).parse(&self.key)? else {
            return None;
        };
        let (store, rest) = match target.kind {
            Kind::Handle => split_store(&target.path)?,
            Kind::Key => (&[][..], &target.path[..]),
        };
        let (owner, name) = split_owner(rest)?;
        let text = |bytes: &[u8]| Some(std::str::from_utf8(bytes).ok()?.to_owned());
        let mut info = RecordInfo {
            name: text(name)?,
            owner: text(owner)?,
            revision,
            ..RecordInfo::default()
        };
        if let Some(put) = self.put {
            info.created_at_ms = put.created_at_ms;
            info.updated_at_ms = put.updated_at_ms;
            info.expires_at_ms = put.expires_at_ms;
            info.idle_ttl_ms = put.idle_ttl_ms;
            info.idle_deadline_ms = put.idle_deadline_ms;
            info.value_bytes = put.value_bytes;
        }
        Some(Change {
            kind: self.kind.into(),
            ordinal,
            store: text(store)?,
            info: Some(info),
        })
    }
}

/// Which changes are wanted.
#[derive(Debug, Clone)]
pub struct Selection {
    tenant: String,
    prefixes: Vec<Bytes>,
    /// The prefix is the whole key.
    is_whole: bool,
    /// Of handles, those of this owner alone, whatever their store.
    owner: Option<Vec<u8>>,
}

impl Selection {
    /// What a request of this tenant's caller selects; nothing, if it names what no record can be named.
    #[must_use]
    pub fn of(group_id: u32, tenant: &str, request: &WatchRequest) -> Self {
        let nothing = Self {
            tenant: tenant.to_owned(),
            prefixes: Vec::new(),
            is_whole: false,
            owner: None,
        };
        if u8::try_from(tenant.len()).is_err() {
            return nothing;
        }
        let space = Space { group_id, tenant };
        Self::in_space(space, request).unwrap_or(nothing)
    }

    fn in_space(space: Space<'_>, request: &WatchRequest) -> Option<Self> {
        let begins = |kind, path: &[u8]| Bytes::from(space.records(kind, path).prefix);
        let (prefixes, is_whole, owner) = match request.target.as_ref()? {
            Watched::Store(store) => {
                let mut path = store_path(&store.store).ok()?;
                if let Some(owner) = &store.owner {
                    path.extend_from_slice(&owner_path(owner).ok()?);
                }
                (vec![begins(Kind::Handle, &path)], false, None)
            }
            Watched::Handle(handle) => {
                let target = Target::handle(&handle.store, &handle.owner, &handle.id).ok()?;
                (vec![space.record(&target)], true, None)
            }
            Watched::Keys(keys) => {
                let mut path = owner_path(&keys.owner).ok()?;
                path.extend_from_slice(keys.prefix.as_bytes());
                (vec![begins(Kind::Key, &path)], false, None)
            }
            Watched::Owner(owner) => {
                let path = owner_path(&owner.owner).ok()?;
                let prefixes = vec![begins(Kind::Handle, &[]), begins(Kind::Key, &path)];
                (prefixes, false, Some(path))
            }
        };
        Some(Self {
            tenant: space.tenant.to_owned(),
            prefixes,
            is_whole,
            owner,
        })
    }

    /// Whose records are selected.
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Whether a change is wanted.
    #[must_use]
    pub fn has(&self, change: &RecordChange) -> bool {
        if self.is_whole {
            return self.prefixes.contains(&change.key);
        }
        let mut prefixes = self.prefixes.iter().enumerate();
        let Some((at, prefix)) = prefixes.find(|(_, prefix)| change.key.starts_with(prefix)) else {
            return false;
        };
        match &self.owner {
            // The first prefix is of handles: their store comes before their owner.
            Some(owner) if at == 0 => split_store(&change.key[prefix.len()..])
                .is_some_and(|(_, rest)| rest.starts_with(owner)),
            _ => true,
        }
    }
}
