//! The deadline index, as a batch reads and writes it.

use std::collections::VecDeque;

use bytes::Bytes;
use helve_proto::command::v1::{NumberRow, TenantDeadlinesRow};

use super::{
    Batch, View, earlier,
    first_deadlines::{FirstDeadlines, LOOKED_UP_ROWS},
};
use crate::{
    expiry,
    fault::Fault,
    layout::{Due, Group, Shelf, Space},
    row,
};

impl<V: View> Batch<V> {
    /// A time before which the group has no deadline row.
    pub(crate) fn deadlines_from(&mut self, group: Group) -> Result<u64, Fault> {
        match self.deadlines_from {
            Some((group_id, from_ms)) if group_id == group.0 => Ok(from_ms),
            _ => {
                let from_ms = expiry::deadlines_from(self, group)?;
                self.deadlines_from = Some((group.0, from_ms));
                Ok(from_ms)
            }
        }
    }

    pub(crate) fn set_deadlines_from(&mut self, group: Group, from_ms: u64) -> Result<(), Fault> {
        if self.deadlines_from(group)? != from_ms {
            self.deadlines_from = Some((group.0, from_ms));
            let row = NumberRow { value: from_ms };
            self.put(group.deadlines_from(), row::encode(&row));
        }
        Ok(())
    }

    /// A time before which a tenant has no deadline row of this kind.
    pub(crate) fn tenant_deadlines_from(
        &mut self,
        space: Space<'_>,
        shelf: Shelf,
    ) -> Result<u64, Fault> {
        let row = self.tenant_deadlines(space)?;
        Ok(match shelf {
            Shelf::Records => row.records_from_ms,
            Shelf::Sessions => row.sessions_from_ms,
            Shelf::Requests => row.requests_from_ms,
        })
    }

    pub(crate) fn set_tenant_deadlines_from(
        &mut self,
        space: Space<'_>,
        shelf: Shelf,
        from_ms: u64,
    ) -> Result<(), Fault> {
        if self.tenant_deadlines_from(space, shelf)? == from_ms {
            return Ok(());
        }
        let mut row = self.tenant_deadlines(space)?;
        match shelf {
            Shelf::Records => row.records_from_ms = from_ms,
            Shelf::Sessions => row.sessions_from_ms = from_ms,
            Shelf::Requests => row.requests_from_ms = from_ms,
        }
        self.tenant_deadlines = Some((space.tenant.to_owned(), row));
        self.put(space.tenant_deadlines(), row::encode(&row));
        Ok(())
    }

    fn tenant_deadlines(&mut self, space: Space<'_>) -> Result<TenantDeadlinesRow, Fault> {
        match &self.tenant_deadlines {
            Some((tenant, row)) if tenant == space.tenant => Ok(*row),
            _ => {
                let key = space.tenant_deadlines();
                let row = row::read(self, "bounds of a tenant's deadlines", &key)?;
                let row: TenantDeadlinesRow = row.unwrap_or_default();
                self.tenant_deadlines = Some((space.tenant.to_owned(), row));
                Ok(row)
            }
        }
    }

    /// The keys of the first rows of the group's deadline index, at most `rows_max`.
    pub(crate) fn first_deadlines(
        &mut self,
        group: Group,
        rows_max: usize,
    ) -> Result<Vec<Bytes>, Fault> {
        let known = self.first_deadlines.as_ref();
        if let Some(first) = known.and_then(|known| known.first(group.0, rows_max)) {
            return Ok(first);
        }
        let (from, to) = group.deadlines(self.deadlines_from(group)?, u64::MAX);
        let looked_up = rows_max.max(LOOKED_UP_ROWS);
        let rows = self.range(&from, &to, looked_up)?;
        let keys: VecDeque<_> = rows.into_iter().map(|(key, _)| key).collect();
        let first = keys.iter().take(rows_max).cloned().collect();
        self.first_deadlines = Some(FirstDeadlines::new(group.0, keys, looked_up));
        Ok(first)
    }

    /// Writes a row of the group's deadline index.
    fn put_deadline(&mut self, space: Space<'_>, at_ms: u64, due: &Due) -> Result<(), Fault> {
        let group = space.group();
        let from_ms = self.deadlines_from(group)?;
        self.set_deadlines_from(group, from_ms.min(at_ms))?;
        if let Some(shelf) = Shelf::of(due) {
            let from_ms = self.tenant_deadlines_from(space, shelf)?;
            self.set_tenant_deadlines_from(space, shelf, from_ms.min(at_ms))?;
        }
        self.first_put_ms = earlier(self.first_put_ms, Some(at_ms));
        let key = group.deadline(at_ms, space.tenant, due);
        self.first_deadlines.take_if(|known| !known.put(&key));
        // A record has one deadline row, and never two at a time.
        self.put_new(key, Bytes::new());
        Ok(())
    }

    pub(crate) fn delete_deadline(&mut self, space: Space<'_>, at_ms: u64, due: &Due) {
        self.first_deleted_ms = earlier(self.first_deleted_ms, Some(at_ms));
        let key = space.group().deadline(at_ms, space.tenant, due);
        if let Some(known) = &mut self.first_deadlines {
            known.delete(&key);
        }
        self.delete(key);
    }

    /// Moves a deadline row, if it moves.
    pub(crate) fn move_deadline(
        &mut self,
        space: Space<'_>,
        due: &Due,
        old: Option<u64>,
        new: Option<u64>,
    ) -> Result<(), Fault> {
        if old == new {
            return Ok(());
        }
        if let Some(at_ms) = old {
            self.delete_deadline(space, at_ms, due);
        }
        match new {
            Some(at_ms) => self.put_deadline(space, at_ms, due),
            None => Ok(()),
        }
    }
}
