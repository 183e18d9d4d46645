//! Reads, answered from a view.
//!
//! A read bears the leader's stamp that came with its read index. A record whose deadline lies between the view's clock and the
//! stamp may have expired already; a view alone cannot tell. The host then commits a `Tick` with a stamp that is not lower, and
//! reads again with the *same* stamp from a view that has it.

use helve_proto::{command::v1::Touch, v1::ReplyHeader};

use crate::{
    clock::clock,
    fault::Fault,
    layout::{Due, DueRow, Kind, Space},
    limits::{NAME_BYTES_MAX, SCAN_INDEX_ROWS},
    usage,
    view::View,
};

mod access;
mod count;
mod handles;
mod kept;
mod keys;
mod scan;
mod stores;

pub use access::{list_tenants, list_tokens};
pub use count::count;
pub use handles::{get, list, rest};
pub use kept::kept_outcome;
pub use keys::{batch_retrieve, exists, keys_rest, list_keys, retrieve};
pub use stores::{StoreUsage, list_stores, store_usage};

/// Who reads, and when.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The group that is read.
    pub group_id: u32,
    /// The tenant whose rows are read: at most 64 bytes.
    pub tenant: &'a str,
    /// The leader's stamp that came with the read index, in milliseconds since the Unix epoch.
    pub stamp_ms: u64,
}

/// The result of a read. Headers lack index and leader hint: the host knows them.
#[derive(Debug, Clone, PartialEq)]
pub enum Read<T> {
    /// The answer.
    Answer(T),
    /// A deadline lies in (clock, stamp]: let time pass with a `Tick`, then read again with the same stamp.
    Lapsed,
    /// Idle times are nearly used: commit these, in any order, then read again with the same stamp. At least one, and at most one for
    /// each record asked for.
    Renew(Vec<Touch>),
    /// Too many records have expired and are not removed yet, so an answer would take too long: ask
    /// again later. Only of [`count`].
    Busy,
    /// The values asked for do not fit one reply: ask for fewer. Only of [`batch_retrieve`].
    TooLarge,
}

/// How much one part of a list may hold. A part has at least one record, if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Rows that are looked at, at least 1.
    pub rows_max: usize,
    /// Bytes of names and, if asked for, values, after which the part ends.
    pub bytes_max: usize,
}

/// What is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Records, expired ones that are not removed yet included.
    pub rows: u64,
    /// Bytes of records, and of outcomes that are kept for retries.
    pub bytes: u64,
}

/// What a tenant uses.
///
/// # Errors
/// A fault if the row cannot be read.
pub fn tenant_usage(view: &impl View, group_id: u32, tenant: &str) -> Result<Usage, Fault> {
    let row = usage::stored(view, &space(group_id, tenant)?.usage().tenant())?;
    Ok(Usage {
        rows: row.rows,
        bytes: row.bytes,
    })
}

fn space(group_id: u32, tenant: &str) -> Result<Space<'_>, Fault> {
    if tenant.len() > NAME_BYTES_MAX {
        return Err(UNCHECKED);
    }
    Ok(Space { group_id, tenant })
}

/// A name does not fit a key: the host read without [`check`](mod@crate::check).
const UNCHECKED: Fault = Fault::Corrupt("a read was not checked: a name is too long");

/// A view at its own clock, for one read.
struct Reading<'a, V> {
    view: &'a V,
    space: Space<'a>,
    clock_ms: u64,
    stamp_ms: u64,
}

impl<'a, V: View> Reading<'a, V> {
    fn new(view: &'a V, scope: &Scope<'a>) -> Result<Self, Fault> {
        Ok(Self {
            view,
            space: space(scope.group_id, scope.tenant)?,
            clock_ms: clock(view, scope.group_id)?,
            stamp_ms: scope.stamp_ms,
        })
    }

    fn header(&self) -> ReplyHeader {
        ReplyHeader {
            index: 0,
            clock_ms: self.clock_ms,
            leader_hint: String::new(),
        }
    }

    /// Whether a deadline lies in (clock, stamp].
    fn is_lapsed(&self, deadline_ms: Option<u64>) -> bool {
        deadline_ms.is_some_and(|at_ms| self.clock_ms < at_ms && at_ms <= self.stamp_ms)
    }

    /// Whether a record of this kind, whose path begins so, has its deadline in (clock, stamp]. Says yes, too, if other deadlines
    /// are too many to look through: a Tick settles it.
    fn has_lapsed(&self, kind: Kind, path_prefix: &[u8]) -> Result<bool, Fault> {
        let Some(first_ms) = self
            .clock_ms
            .checked_add(1)
            .filter(|first_ms| *first_ms <= self.stamp_ms)
        else {
            return Ok(false);
        };
        let (from, to) = self.space.group().deadlines(first_ms, self.stamp_ms);
        let rows = self.view.range(&from, &to, SCAN_INDEX_ROWS)?;
        for (key, _) in &rows {
            if self.concerns(&self.space.group().parse_deadline(key), kind, path_prefix) {
                return Ok(true);
            }
        }
        Ok(rows.len() == SCAN_INDEX_ROWS)
    }

    fn concerns(&self, row: &DueRow, kind: Kind, path_prefix: &[u8]) -> bool {
        let Due::Record(target) = &row.due else {
            return false;
        };
        row.tenant == self.space.tenant
            && target.kind == kind
            && target.path.starts_with(path_prefix)
    }
}
