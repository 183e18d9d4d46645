//! What the machine reads from and writes to.

mod deadlines;
mod first_deadlines;
mod pending_usage;
mod write;

use std::{
    collections::{BTreeMap, btree_map, btree_map::Entry},
    ops::Bound,
};

use bytes::Bytes;
use helve_proto::{
    command::v1::{SessionRow, TenantDeadlinesRow},
    v1::Quotas,
};

use self::{
    first_deadlines::FirstDeadlines,
    pending_usage::PendingUsage,
    write::{Row, Write},
};
use crate::{
    access, expiry,
    fault::Fault,
    layout::{Group, Space},
    level,
    limits::Bounds,
    planted::{self, Plant},
    repair::{Repair, Repairs},
    row,
};

/// Rows that a page makes up for.
const SKIPPED_ROWS_MAX: usize = 64;

/// A consistent, ordered picture of all rows.
pub trait View {
    /// The value under a key.
    ///
    /// # Errors
    /// [`Fault::View`] if the host cannot read.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault>;

    /// The first `rows_max` rows with `from <= key < to`, ascending. None if `from >= to`.
    ///
    /// # Errors
    /// [`Fault::View`] if the host cannot read.
    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault>;
}

impl<V: View + ?Sized> View for &V {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        (**self).get(key)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        (**self).range(from, to, rows_max)
    }
}

/// What some commands write, over the view that they started from. Later commands of the batch read what earlier ones wrote.
/// Usage and session rows alone are behind until [`finish`](Self::finish): nearly every command changes some.
#[derive(Debug)]
pub struct Batch<V> {
    view: V,
    bounds: Bounds,
    repairs: Repairs,
    writes: BTreeMap<Bytes, Write>,
    /// A group, and rows of it that every command asks for, as they stand.
    held: Option<(u32, [Row; 3])>,
    usage: PendingUsage,
    /// Sessions that were written (`None`: removed), by their rows' keys.
    sessions: BTreeMap<Bytes, Option<SessionRow>>,
    /// A group, and a time before which its deadline index has no row: its row of that name, read once.
    deadlines_from: Option<(u32, u64)>,
    first_deadlines: Option<FirstDeadlines>,
    /// The tenant whose bounds of its deadlines were read last, and what they are.
    tenant_deadlines: Option<(String, TenantDeadlinesRow)>,
    /// Rows that were removed because they were due, or forgotten.
    removed_rows: usize,
    /// Bytes that the command under way has read only to remove or to count rows.
    read_bytes: usize,
    /// The earliest times of deadline rows that were put, and of those that were deleted.
    first_put_ms: Option<u64>,
    first_deleted_ms: Option<u64>,
    /// The tenant whose quotas were read last, and what they are.
    quotas: Option<(String, Quotas)>,
}

impl<V: View> Batch<V> {
    /// An empty batch over a view.
    pub fn new(view: V) -> Self {
        Self::bounded(view, Bounds::REPLICATED)
    }

    /// As [`new`](Self::new), with bounds that few rows reach. For tests: see [`Bounds`].
    pub fn bounded(view: V, bounds: Bounds) -> Self {
        Self {
            view,
            bounds,
            repairs: Repairs::default(),
            writes: BTreeMap::new(),
            held: None,
            usage: PendingUsage::default(),
            sessions: BTreeMap::new(),
            deadlines_from: None,
            first_deadlines: None,
            tenant_deadlines: None,
            removed_rows: 0,
            read_bytes: 0,
            first_put_ms: None,
            first_deleted_ms: None,
            quotas: None,
        }
    }

    /// What [`next_deadline`](crate::next_deadline) answers once the batch is written, if it is `before` in the view that the batch
    /// started from. To be asked of a batch of one group.
    ///
    /// # Errors
    /// A fault if the deadline index cannot be read, which is done only if the first deadline may be gone.
    pub fn next_deadline(&self, group_id: u32, before: Option<u64>) -> Result<Option<u64>, Fault> {
        let is_first = |at_ms: u64| before.is_none_or(|first_ms| at_ms <= first_ms);
        if self.first_deleted_ms.is_some_and(is_first) {
            return expiry::next_deadline(self, group_id);
        }
        Ok(earlier(before, self.first_put_ms))
    }

    /// What to write, one after the other, in the order of the keys: `None` deletes. A row that was put where the batch had deleted
    /// another is both. Adds up the usage rows, and encodes the sessions, first.
    ///
    /// # Errors
    /// None today. A host must not write after a fault, so one that comes up here later is passed on.
    pub fn finish(mut self) -> Result<Vec<(Bytes, Option<Bytes>)>, Fault> {
        for (key, counted) in std::mem::take(&mut self.usage).into_rows() {
            if planted::is(Plant::UsageOff) {
                continue;
            }
            self.write(key, counted.encoded());
        }
        for (key, session) in std::mem::take(&mut self.sessions) {
            self.write(key, session.as_ref().map(row::encode));
        }
        let writes = self.writes.into_iter();
        Ok(writes
            .flat_map(|(key, write)| write.into_rows(key))
            .collect())
    }

    /// The derived rows that were put right since this was asked last.
    pub fn take_repairs(&mut self) -> Repairs {
        std::mem::take(&mut self.repairs)
    }

    /// Rows that commands of the batch removed because they were due, or forgot: each costs about as much as a command.
    #[must_use]
    pub fn removed_rows(&self) -> usize {
        self.removed_rows
    }

    pub(crate) fn note_removed(&mut self, rows: u32) {
        self.removed_rows += rows as usize;
    }

    pub(crate) fn note_repair(&mut self, repair: Repair) {
        self.repairs.note(repair);
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Reads the rows of a group that every command asks for, if they were not read yet.
    pub(crate) fn hold(&mut self, group: Group) -> Result<(), Fault> {
        if self.held.as_ref().is_some_and(|(of, _)| *of == group.0) {
            return Ok(());
        }
        self.held = None;
        let read = |key: Bytes| self.get(&key).map(|row| (key, row));
        let rows = [
            read(group.clock())?,
            read(group.feature_level())?,
            read(group.sealing())?,
        ];
        self.held = Some((group.0, rows));
        Ok(())
    }

    pub(crate) fn put(&mut self, key: Bytes, value: Bytes) {
        self.write(key, Some(value));
    }

    pub(crate) fn delete(&mut self, key: Bytes) {
        self.write(key, None);
    }

    /// Puts a row under a key where none stands, as the batch is now. Deleted in the same batch, it is never written at all: an outcome
    /// often lives no longer.
    pub(crate) fn put_new(&mut self, key: Bytes, value: Bytes) {
        match self.writes.entry(key) {
            // The batch deleted what stands in the view, or took back what it had put.
            Entry::Occupied(mut written) => written.get_mut().put_anew(value),
            Entry::Vacant(vacant) => {
                vacant.insert(Write::new_row(value));
            }
        }
    }

    fn write(&mut self, key: Bytes, value: Option<Bytes>) {
        let held = self.held.iter_mut().flat_map(|(_, rows)| rows);
        if let Some((_, row)) = held.into_iter().find(|(held, _)| *held == key) {
            row.clone_from(&value);
        }
        match self.writes.entry(key) {
            Entry::Occupied(written) if value.is_none() && written.get().is_new => {
                written.remove();
            }
            Entry::Occupied(mut written) => written.get_mut().value = value,
            Entry::Vacant(vacant) => {
                vacant.insert(Write::over(value));
            }
        }
    }

    pub(crate) fn session(&self, key: &[u8]) -> Result<Option<SessionRow>, Fault> {
        match self.sessions.get(key) {
            Some(written) => Ok(written.clone()),
            None => row::read(&self.view, "sessions", key),
        }
    }

    /// `None` removes it.
    pub(crate) fn set_session(&mut self, key: Bytes, session: Option<SessionRow>) {
        self.sessions.insert(key, session);
    }

    /// A session that the batch has written, to be changed on the spot.
    pub(crate) fn written_session(&mut self, key: &[u8]) -> Option<&mut SessionRow> {
        self.sessions.get_mut(key).and_then(Option::as_mut)
    }

    /// Counts sessions from one key to before another, at most so many of those in the view. Says how many there are, how many were
    /// read, and the last key that was looked at, if there may be more behind it.
    pub(crate) fn count_sessions(
        &self,
        from: &[u8],
        to: &[u8],
        rows_max: usize,
    ) -> Result<(u64, usize, Option<Bytes>), Fault> {
        let rows = self.view.range(from, to, rows_max)?;
        let read = rows.len();
        let unwritten = rows
            .iter()
            .filter(|(key, _)| !self.sessions.contains_key(key));
        let count = unwritten.count();
        let last = rows.last().filter(|_| read == rows_max);
        let last = last.map(|(key, _)| key.clone());
        let end = last
            .as_ref()
            .map_or(Bound::Excluded(to), |last| Bound::Included(last));
        let written = self.sessions.range::<[u8], _>((Bound::Included(from), end));
        let written = written.filter(|(_, row)| row.is_some()).count();
        Ok(((count + written) as u64, read, last))
    }

    /// Begins a command: what it may read to remove or count rows is its own.
    pub(crate) fn begin_command(&mut self) {
        self.read_bytes = 0;
    }

    /// Notes bytes that a command read only to remove or to count a row.
    pub(crate) fn note_read(&mut self, bytes: usize) {
        self.read_bytes += bytes;
    }

    /// Whether a command must leave the rest to the next one. Older levels read on.
    pub(crate) fn has_read_enough(&self, group_id: u32) -> Result<bool, Fault> {
        Ok(self.read_bytes >= self.bounds.sweep_bytes_max
            && level::feature_level(self, group_id)? >= level::MENDED)
    }

    /// What a tenant of this batch's group may use.
    pub(crate) fn quotas(&mut self, space: Space<'_>) -> Result<Quotas, Fault> {
        match &self.quotas {
            Some((tenant, quotas)) if tenant == space.tenant => Ok(*quotas),
            _ => {
                let quotas = access::quotas(self, space.group_id, space.tenant)?;
                self.quotas = Some((space.tenant.to_owned(), quotas));
                Ok(quotas)
            }
        }
    }

    /// To be called when a tenant's row is written.
    pub(crate) fn forget_quotas(&mut self) {
        self.quotas = None;
    }
}

impl<V: View> View for Batch<V> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let held = self.held.iter().flat_map(|(_, rows)| rows);
        if let Some((_, row)) = held.into_iter().find(|(held, _)| held == key) {
            return Ok(row.clone());
        }
        match self.writes.get(key) {
            Some(written) => Ok(written.value.clone()),
            None => self.view.get(key),
        }
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        if from >= to || rows_max == 0 {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let mut written = self.writes.range::<[u8], _>(bounds).peekable();
        if written.peek().is_none() {
            return self.view.range(from, to, rows_max);
        }
        // Rows that the batch deleted are skipped: a page makes up for them, lest skipping take many pages.
        let first = self.writes.range::<[u8], _>(bounds).take(SKIPPED_ROWS_MAX);
        let page_rows = rows_max + first.filter(|(_, write)| write.value.is_none()).count();
        let mut merged = Vec::new();
        let mut start = from.to_vec();
        loop {
            let page = self.view.range(&start, to, page_rows)?;
            let next = (page.len() == page_rows).then(|| after(&page[page_rows - 1].0));
            for (key, value) in page {
                while let Some((key, value)) = next_before(&mut written, &key) {
                    merged.extend(value.map(|value| (key, value)));
                }
                match written.next_if(|(other, _)| **other == key) {
                    Some((_, write)) => merged.extend(write.value.clone().map(|v| (key, v))),
                    None => merged.push((key, value)),
                }
                if merged.len() >= rows_max {
                    merged.truncate(rows_max);
                    return Ok(merged);
                }
            }
            match next {
                Some(next) => start = next,
                None => break,
            }
        }
        let rest = written.filter_map(|(key, write)| Some((key.clone(), write.value.clone()?)));
        merged.extend(rest.take(rows_max - merged.len()));
        Ok(merged)
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The smallest key after this one.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

type Written<'a> = std::iter::Peekable<btree_map::Range<'a, Bytes, Write>>;

/// The next write, if it lies before this key.
fn next_before(written: &mut Written<'_>, key: &Bytes) -> Option<(Bytes, Option<Bytes>)> {
    let (key, write) = written.next_if(|(other, _)| *other < key)?;
    Some((key.clone(), write.value.clone()))
}

#[cfg(test)]
mod tests;
