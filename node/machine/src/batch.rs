//! What the machine reads from and writes to.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use bytes::Bytes;
use helve_proto::{
    command::v1::{SessionRow, UsageRow},
    v1::Quotas,
};

use crate::{
    access::tenants::TenantQuotas,
    changes::RecordChange,
    deadlines::Deadlines,
    fault::Fault,
    layout::{Due, Group, Shelf, Space},
    level,
    limits::Bounds,
    overlay::Overlay,
    planted::{self, Plant},
    repair::{Repair, Repairs},
    row,
    usage::{Counter, Delta, PendingUsage, Recount},
    view::View,
};

/// What some commands write, over the view that they started from. Later commands of the batch read what earlier ones wrote.
/// Usage and session rows alone are behind until [`finish`](Self::finish): nearly every command changes some.
#[derive(Debug)]
pub struct Batch<V> {
    rows: Overlay<V>,
    bounds: Bounds,
    repairs: Repairs,
    usage: PendingUsage,
    /// Sessions that were written (`None`: removed), by their rows' keys.
    sessions: BTreeMap<Bytes, Option<SessionRow>>,
    deadlines: Deadlines,
    quotas: TenantQuotas,
    /// Rows that were removed because they were due, or forgotten.
    removed_rows: usize,
    /// Bytes that the command under way has read only to remove or to count rows.
    read_bytes: usize,
    /// Changes of records since they were taken last.
    changes: Vec<RecordChange>,
}

impl<V: View> Batch<V> {
    /// An empty batch over a view.
    pub fn new(view: V) -> Self {
        Self::bounded(view, Bounds::REPLICATED)
    }

    /// As [`new`](Self::new), with bounds that few rows reach. For tests: see [`Bounds`].
    pub fn bounded(view: V, bounds: Bounds) -> Self {
        Self {
            rows: Overlay::new(view),
            bounds,
            repairs: Repairs::default(),
            usage: PendingUsage::default(),
            sessions: BTreeMap::new(),
            deadlines: Deadlines::default(),
            quotas: TenantQuotas::default(),
            removed_rows: 0,
            read_bytes: 0,
            changes: Vec::new(),
        }
    }

    /// What [`next_deadline`](crate::next_deadline) answers once the batch is written, if it is `before` in the view that the batch
    /// started from. To be asked of a batch of one group.
    ///
    /// # Errors
    /// A fault if the deadline index cannot be read, which is done only if the first deadline may be gone.
    pub fn next_deadline(&self, group_id: u32, before: Option<u64>) -> Result<Option<u64>, Fault> {
        self.deadlines.next(&self.rows, group_id, before)
    }

    /// What to write, one after the other, in the order of the keys: `None` deletes. A row that was put where the batch had deleted
    /// another is both. Adds up the usage rows, and encodes the sessions, first.
    ///
    /// # Errors
    /// None today. A host must not write after a fault, so one that comes up here later is passed on.
    pub fn finish(mut self) -> Result<Vec<(Bytes, Option<Bytes>)>, Fault> {
        for (key, counted) in self.usage.into_rows() {
            if planted::is(Plant::UsageOff) {
                continue;
            }
            self.rows.write(key, counted.encoded());
        }
        for (key, session) in self.sessions {
            self.rows.write(key, session.as_ref().map(row::encode));
        }
        Ok(self.rows.into_rows())
    }

    /// The derived rows that were put right since this was asked last.
    pub fn take_repairs(&mut self) -> Repairs {
        std::mem::take(&mut self.repairs)
    }

    /// The changes of records since this was asked last, in the order in which they were made. A host that tells of changes asks
    /// after each command.
    pub fn take_changes(&mut self) -> Vec<RecordChange> {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn note_change(&mut self, change: RecordChange) {
        self.changes.push(change);
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

    pub(crate) fn session(&self, key: &[u8]) -> Result<Option<SessionRow>, Fault> {
        match self.sessions.get(key) {
            Some(written) => Ok(written.clone()),
            None => row::read(self.rows.below(), "sessions", key),
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

    /// The keys of the first sessions from one key to before another, at most this many. They are the
    /// same however commands are batched: what this batch wrote and the view below are one.
    pub(crate) fn first_sessions(
        &self,
        from: &[u8],
        to: &[u8],
        rows_max: usize,
    ) -> Result<Vec<Bytes>, Fault> {
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let written = || self.sessions.range::<[u8], _>(bounds);
        // Enough rows of the view remain when these are left out.
        let removed = written().filter(|(_, row)| row.is_none()).count();
        let page_rows = rows_max + removed;
        let page = self.rows.below().range(from, to, page_rows)?;
        let last = page.last().filter(|_| page.len() == page_rows);
        let is_seen = |key: &Bytes| last.is_none_or(|(last, _)| key <= last);
        let written_here = written().filter(|(key, row)| row.is_some() && is_seen(key));
        let mut keys: BTreeSet<_> = written_here.map(|(key, _)| key.clone()).collect();
        let unwritten = page.iter().map(|(key, _)| key);
        keys.extend(
            unwritten
                .filter(|key| !self.sessions.contains_key(*key))
                .cloned(),
        );
        Ok(keys.into_iter().take(rows_max).collect())
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
        self.quotas.get(&self.rows, space)
    }

    /// To be called when a tenant's row is written.
    pub(crate) fn forget_quotas(&mut self) {
        self.quotas = TenantQuotas::default();
    }
}

/// Rows.
impl<V: View> Batch<V> {
    /// See [`Overlay::hold`].
    pub(crate) fn hold(&mut self, group: Group) -> Result<(), Fault> {
        self.rows.hold(group)
    }

    pub(crate) fn put(&mut self, key: Bytes, value: Bytes) {
        self.rows.put(key, value);
    }

    pub(crate) fn delete(&mut self, key: Bytes) {
        self.rows.delete(key);
    }

    /// See [`Overlay::put_new`].
    pub(crate) fn put_new(&mut self, key: Bytes, value: Bytes) {
        self.rows.put_new(key, value);
    }
}

impl<V: View> View for Batch<V> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        self.rows.get(key)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        self.rows.range(from, to, rows_max)
    }
}

/// The deadline index: see [`Deadlines`].
impl<V: View> Batch<V> {
    /// See [`Deadlines::bound`].
    pub(crate) fn deadlines_from(&mut self, group: Group) -> Result<u64, Fault> {
        self.deadlines.bound(&self.rows, group)
    }

    pub(crate) fn set_deadlines_from(&mut self, group: Group, from_ms: u64) -> Result<(), Fault> {
        self.deadlines.set_bound(&mut self.rows, group, from_ms)
    }

    /// See [`Deadlines::mend_bound`].
    pub(crate) fn mend_deadlines_from(&mut self, group: Group) -> Result<(), Fault> {
        if let Some((was, is)) = self.deadlines.mend_bound(&mut self.rows, group)? {
            self.note_repair(Repair {
                what: "where deadlines begin",
                tenant: String::new(),
                was,
                is,
            });
        }
        Ok(())
    }

    /// Has a tenant's deadlines of a kind begin at this one of theirs, if they were said to begin
    /// later.
    pub(crate) fn mend_tenant_deadlines_from(
        &mut self,
        space: Space<'_>,
        shelf: Shelf,
        at_ms: u64,
    ) -> Result<(), Fault> {
        let was = self.tenant_deadlines_from(space, shelf)?;
        if was <= at_ms {
            return Ok(());
        }
        self.note_repair(Repair {
            what: "where a tenant's deadlines begin",
            tenant: space.tenant.to_owned(),
            was,
            is: at_ms,
        });
        self.set_tenant_deadlines_from(space, shelf, at_ms)
    }

    /// See [`Deadlines::tenant_bound`].
    pub(crate) fn tenant_deadlines_from(
        &mut self,
        space: Space<'_>,
        shelf: Shelf,
    ) -> Result<u64, Fault> {
        self.deadlines.tenant_bound(&self.rows, space, shelf)
    }

    pub(crate) fn set_tenant_deadlines_from(
        &mut self,
        space: Space<'_>,
        shelf: Shelf,
        from_ms: u64,
    ) -> Result<(), Fault> {
        self.deadlines
            .set_tenant_bound(&mut self.rows, space, shelf, from_ms)
    }

    /// See [`Deadlines::first`].
    pub(crate) fn first_deadlines(
        &mut self,
        group: Group,
        rows_max: usize,
    ) -> Result<Vec<Bytes>, Fault> {
        self.deadlines.first(&self.rows, group, rows_max)
    }

    pub(crate) fn delete_deadline(&mut self, space: Space<'_>, at_ms: u64, due: &Due) {
        self.deadlines.delete(&mut self.rows, space, at_ms, due);
    }

    /// See [`Deadlines::shift`].
    pub(crate) fn move_deadline(
        &mut self,
        space: Space<'_>,
        due: &Due,
        old: Option<u64>,
        new: Option<u64>,
    ) -> Result<(), Fault> {
        self.deadlines.shift(&mut self.rows, space, due, (old, new))
    }
}

/// Counters: see [`PendingUsage`].
impl<V: View> Batch<V> {
    /// See [`PendingUsage::count`].
    pub(crate) fn count(
        &mut self,
        space: Space<'_>,
        counter: Counter<'_>,
        delta: Delta,
        key: impl FnOnce() -> Bytes,
    ) -> Result<(), Fault> {
        let (rows, deadlines) = (&mut self.rows, &mut self.deadlines);
        self.usage
            .count((rows, deadlines), (space, counter), delta, key)
    }

    /// See [`PendingUsage::keys`].
    pub(crate) fn counted_keys(&self) -> impl Iterator<Item = &Bytes> {
        self.usage.keys()
    }

    /// See [`PendingUsage::recount`].
    pub(crate) fn recount(&mut self, space: Space<'_>, counter: Counter<'_>) -> Result<(), Fault> {
        let (rows, deadlines) = (&mut self.rows, &mut self.deadlines);
        self.usage.recount((rows, deadlines), space, counter)
    }

    /// See [`PendingUsage::recount_of`].
    pub(crate) fn recount_of(
        &mut self,
        space: Space<'_>,
        counter: Counter<'_>,
    ) -> Result<Option<Recount>, Fault> {
        self.usage.recount_of(self.rows.below(), space, counter)
    }

    /// See [`PendingUsage::go_on_with`].
    pub(crate) fn go_on_with(
        &mut self,
        space: Space<'_>,
        counter: Counter<'_>,
        recount: Recount,
    ) -> Result<(), Fault> {
        self.usage
            .go_on_with(self.rows.below(), space, counter, recount)
    }

    /// See [`PendingUsage::end_recount`].
    pub(crate) fn end_recount(
        &mut self,
        space: Space<'_>,
        counter: Counter<'_>,
        found: UsageRow,
    ) -> Result<(UsageRow, UsageRow), Fault> {
        self.usage
            .end_recount(self.rows.below(), space, counter, found)
    }

    /// What a counter says, this batch's changes included.
    pub(crate) fn usage(&self, space: Space<'_>, counter: Counter<'_>) -> Result<UsageRow, Fault> {
        self.usage.said(self.rows.below(), space, counter)
    }
}

#[cfg(test)]
mod tests;
