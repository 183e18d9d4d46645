//! Every physical row's key.
//!
//! A key is: group id (u32), tenant (length u8, bytes), table (u8), and the table's own part. Numbers are big-endian, so that
//! they sort. Every text but the last of a key bears its length, so that no name can reach into another's rows. Rows of the group
//! itself (clock, deadlines, node ids, cluster id, feature level, tokens, tenants) stand under the empty tenant.
//!
//! | table | own part | value |
//! |---|---|---|
//! | clock, node ids, cluster | - | `NumberRow`, `NumberRow`, `ClusterRow` |
//! | feature level, probes | - | `NumberRow` |
//! | sealing | - | `SealingRow` |
//! | deadlines from | - | `NumberRow` |
//! | tokens | hash (32) | `TokenRow` |
//! | tenants | name | `TenantRow` |
//! | deadlines | time u64, kind u8, tenant (length u8), target | empty |
//! | handles, tombstones | store (length u8), owner (length u16), id | `RecordRow`, `TombstoneRow` |
//! | keys | owner (length u16), key | `RecordRow` |
//! | tombstone order | time u64, then as in tombstones | empty, or 1: it counts among the tenant's bytes |
//! | tombstone summary, request summary | - | `TombstonesRow`, `RequestsRow` |
//! | sessions | session id (16) | `SessionRow` |
//! | session order | principal (length u16), deadline u64, session id (16) | empty |
//! | session outcomes | session id (16), number u64 | `OutcomeRow` |
//! | request outcomes | request id (16) | `OutcomeRow` |
//! | principal's request outcomes | principal (length u16), request id (16) | `OutcomeRow` |
//! | principal's request summary | principal (length u16) | `RequestsRow` |
//! | usage of tenant, sessions | - | `UsageRow` |
//! | usage of principal: its sessions | principal (length u16) | `UsageRow` |
//! | tokens of tenant | hash (32) | empty |
//! | tenant's deadlines from | - | `TenantDeadlinesRow` |
//! | usage of store, of owner | store (length u8); and owner (length u16) | `UsageRow` |

use bytes::Bytes;

mod authority;
mod due;
mod replay;
mod target;
mod tenant;
mod usage;

pub use authority::{authority_ranges, is_authority};
pub(crate) use due::{Due, DueRow, Place, Shelf};
pub(crate) use target::{
    Kind, Target, Unfit, owner_path, principal_path, push_owner, split_owner, split_store,
    store_path,
};
use tenant::push_tenant;
pub(crate) use tenant::tenant_of;

const CLOCK: u8 = 1;
const DEADLINES: u8 = 2;
const NODE_IDS: u8 = 3;
const CLUSTER: u8 = 4;
const DEADLINES_FROM: u8 = 5;
const FEATURE_LEVEL: u8 = 6;
const PROBES: u8 = 7;
const TOKENS: u8 = 8;
const TENANTS: u8 = 9;
const SEALING: u8 = 14;
const HANDLES: u8 = 16;
const KEYS: u8 = 17;
const TOMBSTONES: u8 = 18;
const TOMBSTONE_ORDER: u8 = 19;
const TOMBSTONE_SUMMARY: u8 = 20;
const SESSIONS: u8 = 24;
const SESSION_OUTCOMES: u8 = 25;
const REQUEST_OUTCOMES: u8 = 26;
const REQUEST_SUMMARY: u8 = 27;
const SESSION_ORDER: u8 = 28;
const PRINCIPAL_REQUEST_OUTCOMES: u8 = 29;
const PRINCIPAL_REQUEST_SUMMARY: u8 = 30;
const USAGE_TENANT: u8 = 32;
const USAGE_STORE: u8 = 33;
const USAGE_OWNER: u8 = 34;
const USAGE_SESSIONS: u8 = 35;
const TOKENS_OF_TENANT: u8 = 36;
const TENANT_DEADLINES: u8 = 37;
const USAGE_PRINCIPAL: u8 = 38;

/// Whether no row under this key ever replaces another: it is put where none is, and deleted before the next one is put. A host
/// whose engine deletes such rows more cheaply may do so.
#[must_use]
pub fn is_never_replaced(key: &[u8]) -> bool {
    let tenant_bytes = key.get(4).copied().unwrap_or_default();
    let table = key.get(4 + 1 + usize::from(tenant_bytes));
    matches!(
        table,
        Some(&(SESSION_OUTCOMES | REQUEST_OUTCOMES | PRINCIPAL_REQUEST_OUTCOMES))
    )
}

/// The rows of a group itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group(pub(crate) u32);

impl Group {
    fn space(self) -> Space<'static> {
        Space {
            group_id: self.0,
            tenant: "",
        }
    }

    fn table(self, table: u8) -> Vec<u8> {
        self.space().table(table)
    }

    pub(crate) fn clock(self) -> Bytes {
        self.table(CLOCK).into()
    }

    pub(crate) fn node_ids(self) -> Bytes {
        self.table(NODE_IDS).into()
    }

    pub(crate) fn cluster(self) -> Bytes {
        self.table(CLUSTER).into()
    }

    pub(crate) fn feature_level(self) -> Bytes {
        self.table(FEATURE_LEVEL).into()
    }

    pub(crate) fn probes(self) -> Bytes {
        self.table(PROBES).into()
    }

    pub(crate) fn sealing(self) -> Bytes {
        self.table(SEALING).into()
    }

    /// A token's row, by the hash of its secret.
    pub(crate) fn token(self, hash: &[u8]) -> Bytes {
        self.row(TOKENS, hash)
    }

    pub(crate) fn tokens(self) -> Span {
        Span::of_prefix(self.table(TOKENS))
    }

    pub(crate) fn tenant(self, name: &str) -> Bytes {
        self.row(TENANTS, name.as_bytes())
    }

    pub(crate) fn tenants(self) -> Span {
        Span::of_prefix(self.table(TENANTS))
    }

    fn row(self, table: u8, path: &[u8]) -> Bytes {
        self.space().row(table, path)
    }

    /// The row with a time before which no deadline row exists. A scan for expired rows need not step over those that were
    /// removed, which a log-structured store keeps for a while.
    pub(crate) fn deadlines_from(self) -> Bytes {
        self.table(DEADLINES_FROM).into()
    }

    pub(crate) fn deadline(self, at_ms: u64, tenant: &str, due: &Due) -> Bytes {
        if let Due::Unreadable(key) = due {
            return key.clone();
        }
        let (kind, path) = due.parts();
        let own_bytes = 8 + 1 + 1 + tenant.len() + path.len();
        let mut key = self.space().begin(DEADLINES, own_bytes);
        key.extend_from_slice(&at_ms.to_be_bytes());
        key.push(kind);
        push_tenant(&mut key, tenant);
        key.extend_from_slice(path);
        key.into()
    }

    /// The deadline rows of these times, both included.
    pub(crate) fn deadlines(self, first_ms: u64, last_ms: u64) -> (Vec<u8>, Vec<u8>) {
        let mut from = self.table(DEADLINES);
        from.extend_from_slice(&first_ms.to_be_bytes());
        let to = match last_ms.checked_add(1) {
            Some(end_ms) => {
                let mut to = self.table(DEADLINES);
                to.extend_from_slice(&end_ms.to_be_bytes());
                to
            }
            None => self.table(DEADLINES + 1),
        };
        (from, to)
    }

    /// Where the rows of a time, a kind and a tenant begin.
    pub(crate) fn deadlines_of(self, at_ms: u64, kind: u8, tenant: &str) -> Vec<u8> {
        let mut key = self.space().begin(DEADLINES, 8 + 1 + 1 + tenant.len());
        key.extend_from_slice(&at_ms.to_be_bytes());
        key.push(kind);
        push_tenant(&mut key, tenant);
        key
    }

    /// All rows of the group, its tenants' included.
    pub(crate) fn all(self) -> Span {
        Span::of_prefix(self.0.to_be_bytes().to_vec())
    }

    /// Whose row a key names, and which; `None` if it is no key of this group.
    pub(crate) fn parse(self, key: &Bytes) -> Option<(&str, Place)> {
        let rest = key.strip_prefix(&self.0.to_be_bytes())?;
        let (&length, rest) = rest.split_first()?;
        let (tenant, rest) = rest.split_at_checked(usize::from(length))?;
        let (&table, path) = rest.split_first()?;
        let path = key.slice_ref(path);
        let place = match table {
            CLOCK | NODE_IDS | CLUSTER | FEATURE_LEVEL | PROBES | SEALING | TENANTS => Place::Other,
            TOKENS => Place::Token(path),
            TOKENS_OF_TENANT => Place::TokenOfTenant,
            DEADLINES_FROM => Place::DeadlinesFrom,
            TENANT_DEADLINES => Place::TenantDeadlines,
            DEADLINES => Place::Deadline,
            HANDLES => Place::Record(Target {
                kind: Kind::Handle,
                path,
            }),
            KEYS => Place::Record(Target {
                kind: Kind::Key,
                path,
            }),
            TOMBSTONES => Place::Tombstone(path),
            TOMBSTONE_ORDER => Place::TombstoneOrder(path.slice(8.min(path.len())..)),
            TOMBSTONE_SUMMARY => Place::TombstoneSummary,
            SESSIONS => Place::Session(path),
            SESSION_ORDER => Place::SessionOrder,
            SESSION_OUTCOMES => Place::SessionOutcome,
            REQUEST_OUTCOMES => Place::RequestOutcome(path),
            REQUEST_SUMMARY => Place::RequestSummary,
            PRINCIPAL_REQUEST_OUTCOMES => {
                let (principal, _) = split_owner(&path)?;
                let (principal, id) = path.split_at_checked(2 + principal.len())?;
                Place::PrincipalRequestOutcome(path.slice_ref(principal), path.slice_ref(id))
            }
            PRINCIPAL_REQUEST_SUMMARY => Place::PrincipalRequestSummary(path),
            USAGE_TENANT | USAGE_STORE | USAGE_OWNER | USAGE_SESSIONS | USAGE_PRINCIPAL => {
                Place::Usage
            }
            _ => return None,
        };
        Some((std::str::from_utf8(tenant).ok()?, place))
    }

    /// What a row of the deadline index says. One that says nothing is due at its time, or at 0.
    pub(crate) fn parse_deadline(self, key: &Bytes) -> DueRow {
        let start = self.table(DEADLINES).len();
        Self::parse_deadline_at(key, start).unwrap_or_else(|| {
            let at_ms = key.get(start..).and_then(|own| own.first_chunk::<8>());
            DueRow {
                at_ms: at_ms.map_or(0, |at_ms| u64::from_be_bytes(*at_ms)),
                tenant: String::new(),
                due: Due::Unreadable(key.clone()),
            }
        })
    }

    fn parse_deadline_at(key: &Bytes, start: usize) -> Option<DueRow> {
        let (at_ms, rest) = key.get(start..)?.split_first_chunk::<8>()?;
        let (&[kind, length], rest) = rest.split_first_chunk::<2>()?;
        let (tenant, path) = rest.split_at_checked(usize::from(length))?;
        Some(DueRow {
            at_ms: u64::from_be_bytes(*at_ms),
            tenant: std::str::from_utf8(tenant).ok()?.to_owned(),
            due: Due::from_parts(kind, key.slice_ref(path))?,
        })
    }
}

/// The rows of one tenant in a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space<'a> {
    pub(crate) group_id: u32,
    pub(crate) tenant: &'a str,
}

impl Space<'_> {
    /// The beginning of a key that has this many bytes more: a key with room to spare would be allocated
    /// twice.
    fn begin(self, table: u8, own_bytes: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(4 + 1 + self.tenant.len() + 1 + own_bytes);
        key.extend_from_slice(&self.group_id.to_be_bytes());
        push_tenant(&mut key, self.tenant);
        key.push(table);
        key
    }

    fn table(self, table: u8) -> Vec<u8> {
        self.begin(table, 0)
    }

    fn row(self, table: u8, path: &[u8]) -> Bytes {
        let mut key = self.begin(table, path.len());
        key.extend_from_slice(path);
        key.into()
    }

    pub(crate) fn group(self) -> Group {
        Group(self.group_id)
    }

    pub(crate) fn record(self, target: &Target) -> Bytes {
        let table = match target.kind {
            Kind::Handle => HANDLES,
            Kind::Key => KEYS,
        };
        self.row(table, &target.path)
    }

    /// The records of a kind whose path begins so: where they start and end, and how many bytes of each key come before the
    /// path.
    pub(crate) fn records(self, kind: Kind, path_prefix: &[u8]) -> Span {
        let prefix = self.record(&Target {
            kind,
            path: Bytes::copy_from_slice(path_prefix),
        });
        Span::of_prefix(prefix.into())
    }

    pub(crate) fn tombstone(self, path: &[u8]) -> Bytes {
        self.row(TOMBSTONES, path)
    }

    pub(crate) fn tombstone_order(self, at_ms: u64, path: &[u8]) -> Bytes {
        let mut key = self.begin(TOMBSTONE_ORDER, 8 + path.len());
        key.extend_from_slice(&at_ms.to_be_bytes());
        key.extend_from_slice(path);
        key.into()
    }

    pub(crate) fn tombstone_orders(self) -> Span {
        Span::of_prefix(self.table(TOMBSTONE_ORDER))
    }

    pub(crate) fn tombstone_summary(self) -> Bytes {
        self.table(TOMBSTONE_SUMMARY).into()
    }

    /// The row that lists a token as the tenant's.
    pub(crate) fn token(self, hash: &[u8]) -> Bytes {
        self.row(TOKENS_OF_TENANT, hash)
    }

    pub(crate) fn tokens(self) -> Span {
        Span::of_prefix(self.table(TOKENS_OF_TENANT))
    }

    /// The row that says times before which the tenant has no deadline row.
    pub(crate) fn tenant_deadlines(self) -> Bytes {
        self.table(TENANT_DEADLINES).into()
    }
}

/// All keys with a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) prefix: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Span {
    fn of_prefix(prefix: Vec<u8>) -> Self {
        let mut end = prefix.clone();
        // What can be raised is raised: after a tenant comes its table's number, which is never 255.
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        Self { prefix, end }
    }
}
