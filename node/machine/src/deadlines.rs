//! The deadline index, as a batch reads and writes it.

mod first;

use std::collections::VecDeque;

use bytes::Bytes;
use helve_proto::command::v1::{NumberRow, TenantDeadlinesRow};

use self::first::{FirstDeadlines, LOOKED_UP_ROWS};
use crate::{
    fault::Fault,
    layout::{Due, Group, Shelf, Space},
    overlay::Overlay,
    row,
    view::View,
};

/// The first time at which a row of the group is due, be it past already; `None` if nothing is.
///
/// # Errors
/// A fault if the deadline index cannot be read.
pub fn next_deadline(view: &impl View, group_id: u32) -> Result<Option<u64>, Fault> {
    let group = Group(group_id);
    let (from, to) = group.deadlines(deadlines_from(view, group)?, u64::MAX);
    match view.range(&from, &to, 1)?.first() {
        Some((key, _)) => Ok(Some(group.parse_deadline(key).at_ms)),
        None => Ok(None),
    }
}

/// A time before which the group has no deadline row.
pub(crate) fn deadlines_from(view: &impl View, group: Group) -> Result<u64, Fault> {
    let row: Option<NumberRow> = row::read(view, "deadline bounds", &group.deadlines_from())?;
    Ok(row.map_or(0, |row| row.value))
}

/// What a batch knows of the index, so that most commands change it without a look.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// A group, and a time before which its deadline index has no row: its row of that name, read once.
    from: Option<(u32, u64)>,
    first: Option<FirstDeadlines>,
    /// The tenant whose bounds of its deadlines were read last, and what they are.
    tenant: Option<(String, TenantDeadlinesRow)>,
    /// The earliest times of rows that were put, and of those that were deleted.
    first_put_ms: Option<u64>,
    first_deleted_ms: Option<u64>,
}

impl Deadlines {
    /// What [`next_deadline`] answers once the batch is written, if it is `before` in the view
    /// below.
    ///
    /// # Errors
    /// A fault if the index cannot be read, which is done only if the first deadline may be gone.
    pub(crate) fn next<V: View>(
        &self,
        rows: &Overlay<V>,
        group_id: u32,
        before: Option<u64>,
    ) -> Result<Option<u64>, Fault> {
        let is_first = |at_ms: u64| before.is_none_or(|first_ms| at_ms <= first_ms);
        if self.first_deleted_ms.is_some_and(is_first) {
            return next_deadline(rows, group_id);
        }
        Ok(earlier(before, self.first_put_ms))
    }

    /// A time before which the group has no deadline row.
    pub(crate) fn bound<V: View>(&mut self, rows: &Overlay<V>, group: Group) -> Result<u64, Fault> {
        match self.from {
            Some((group_id, from_ms)) if group_id == group.0 => Ok(from_ms),
            _ => {
                let from_ms = deadlines_from(rows, group)?;
                self.from = Some((group.0, from_ms));
                Ok(from_ms)
            }
        }
    }

    pub(crate) fn set_bound<V: View>(
        &mut self,
        rows: &mut Overlay<V>,
        group: Group,
        from_ms: u64,
    ) -> Result<(), Fault> {
        if self.bound(rows, group)? != from_ms {
            self.from = Some((group.0, from_ms));
            let row = NumberRow { value: from_ms };
            rows.put(group.deadlines_from(), row::encode(&row));
        }
        Ok(())
    }

    /// Looks for a row of the group before the time that the index begins at. If there is one, the
    /// index begins at it from now on: the answer is the time that was said, and the row's.
    pub(crate) fn mend_bound<V: View>(
        &mut self,
        rows: &mut Overlay<V>,
        group: Group,
    ) -> Result<Option<(u64, u64)>, Fault> {
        let said_ms = self.bound(rows, group)?;
        let Some(before_ms) = said_ms.checked_sub(1) else {
            return Ok(None);
        };
        let (from, to) = group.deadlines(0, before_ms);
        let Some((key, _)) = rows.range(&from, &to, 1)?.pop() else {
            return Ok(None);
        };
        let at_ms = group.parse_deadline(&key).at_ms;
        self.set_bound(rows, group, at_ms)?;
        // What was looked up began too late.
        self.first = None;
        self.first_deleted_ms = Some(0);
        Ok(Some((said_ms, at_ms)))
    }

    /// A time before which a tenant has no deadline row of this kind.
    pub(crate) fn tenant_bound<V: View>(
        &mut self,
        rows: &Overlay<V>,
        space: Space<'_>,
        shelf: Shelf,
    ) -> Result<u64, Fault> {
        let row = self.tenant(rows, space)?;
        Ok(match shelf {
            Shelf::Records => row.records_from_ms,
            Shelf::Sessions => row.sessions_from_ms,
            Shelf::Requests => row.requests_from_ms,
        })
    }

    pub(crate) fn set_tenant_bound<V: View>(
        &mut self,
        rows: &mut Overlay<V>,
        space: Space<'_>,
        shelf: Shelf,
        from_ms: u64,
    ) -> Result<(), Fault> {
        if self.tenant_bound(rows, space, shelf)? == from_ms {
            return Ok(());
        }
        let mut row = self.tenant(rows, space)?;
        match shelf {
            Shelf::Records => row.records_from_ms = from_ms,
            Shelf::Sessions => row.sessions_from_ms = from_ms,
            Shelf::Requests => row.requests_from_ms = from_ms,
        }
        self.tenant = Some((space.tenant.to_owned(), row));
        rows.put(space.tenant_deadlines(), row::encode(&row));
        Ok(())
    }

    fn tenant<V: View>(
        &mut self,
        rows: &Overlay<V>,
        space: Space<'_>,
    ) -> Result<TenantDeadlinesRow, Fault> {
        match &self.tenant {
            Some((tenant, row)) if tenant == space.tenant => Ok(*row),
            _ => {
                let key = space.tenant_deadlines();
                let row = row::read(rows, "bounds of a tenant's deadlines", &key)?;
                let row: TenantDeadlinesRow = row.unwrap_or_default();
                self.tenant = Some((space.tenant.to_owned(), row));
                Ok(row)
            }
        }
    }

    /// The keys of the first rows of the group's deadline index, at most `rows_max`.
    pub(crate) fn first<V: View>(
        &mut self,
        rows: &Overlay<V>,
        group: Group,
        rows_max: usize,
    ) -> Result<Vec<Bytes>, Fault> {
        let known = self.first.as_ref();
        if let Some(first) = known.and_then(|known| known.first(group.0, rows_max)) {
            return Ok(first);
        }
        let (from, to) = group.deadlines(self.bound(rows, group)?, u64::MAX);
        let looked_up = rows_max.max(LOOKED_UP_ROWS);
        let found = rows.range(&from, &to, looked_up)?;
        let keys: VecDeque<_> = found.into_iter().map(|(key, _)| key).collect();
        let first = keys.iter().take(rows_max).cloned().collect();
        self.first = Some(FirstDeadlines::new(group.0, keys, looked_up));
        Ok(first)
    }

    /// Writes a row of the group's deadline index.
    fn put<V: View>(
        &mut self,
        rows: &mut Overlay<V>,
        space: Space<'_>,
        at_ms: u64,
        due: &Due,
    ) -> Result<(), Fault> {
        let group = space.group();
        let from_ms = self.bound(rows, group)?;
        self.set_bound(rows, group, from_ms.min(at_ms))?;
        if let Some(shelf) = Shelf::of(due) {
            let from_ms = self.tenant_bound(rows, space, shelf)?;
            self.set_tenant_bound(rows, space, shelf, from_ms.min(at_ms))?;
        }
        self.first_put_ms = earlier(self.first_put_ms, Some(at_ms));
        let key = group.deadline(at_ms, space.tenant, due);
        self.first.take_if(|known| !known.put(&key));
        // A record has one deadline row, and never two at a time.
        rows.put_new(key, Bytes::new());
        Ok(())
    }

    pub(crate) fn delete<V: View>(
        &mut self,
        rows: &mut Overlay<V>,
        space: Space<'_>,
        at_ms: u64,
        due: &Due,
    ) {
        self.first_deleted_ms = earlier(self.first_deleted_ms, Some(at_ms));
        let key = space.group().deadline(at_ms, space.tenant, due);
        if let Some(known) = &mut self.first {
            known.delete(&key);
        }
        rows.delete(key);
    }

    /// Moves a deadline row from the old time to the new one, if they differ.
    pub(crate) fn shift<V: View>(
        &mut self,
        rows: &mut Overlay<V>,
        space: Space<'_>,
        due: &Due,
        (old, new): (Option<u64>, Option<u64>),
    ) -> Result<(), Fault> {
        if old == new {
            return Ok(());
        }
        if let Some(at_ms) = old {
            self.delete(rows, space, at_ms, due);
        }
        match new {
            Some(at_ms) => self.put(rows, space, at_ms, due),
            None => Ok(()),
        }
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}
