//! Changes of usage rows that are not written yet. All commands of a busy tenant change its own row, most of them several times: that
//! one is added up without a look for its key.

use std::collections::BTreeMap;

use bytes::Bytes;
use helve_proto::command::v1::UsageRow;

use super::{Counted, Counter, Delta, Recount};
use crate::{
    clock::clock,
    deadlines::Deadlines,
    fault::Fault,
    layout::{Due, Space},
    level,
    overlay::Overlay,
    view::View,
};

/// Usage rows that were counted, by their keys.
#[derive(Debug, Default)]
pub(crate) struct PendingUsage {
    /// The tenant that was counted for last, whose row is not among `rows` meanwhile.
    tenant: Option<Tenant>,
    rows: BTreeMap<Bytes, Counted>,
}

#[derive(Debug)]
struct Tenant {
    group_id: u32,
    name: String,
    key: Bytes,
    counted: Counted,
}

impl PendingUsage {
    /// A counter's row, read from the view when it is asked for first.
    fn counted(
        &mut self,
        view: &impl View,
        space: Space<'_>,
        counter: Counter<'_>,
    ) -> Result<&mut Counted, Fault> {
        if let Counter::Tenant = counter {
            return self.tenant(view, space);
        }
        let key = counter.key(space);
        if !self.rows.contains_key(&key) {
            let read = Counted::read(view, &key)?;
            self.rows.insert(key.clone(), read);
        }
        Ok(self.rows.entry(key).or_default())
    }

    fn tenant(&mut self, view: &impl View, space: Space<'_>) -> Result<&mut Counted, Fault> {
        let is_last = |last: &Tenant| last.name == space.tenant && last.group_id == space.group_id;
        let next = match self.tenant.take() {
            Some(last) if is_last(&last) => last,
            last => {
                self.rows.extend(last.map(|last| (last.key, last.counted)));
                let key = space.usage().tenant();
                let known = self.rows.remove(&key);
                let counted = match known {
                    Some(counted) => counted,
                    None => Counted::read(view, &key)?,
                };
                Tenant {
                    group_id: space.group_id,
                    name: space.tenant.to_owned(),
                    key,
                    counted,
                }
            }
        };
        Ok(&mut self.tenant.insert(next).counted)
    }

    fn get(&self, key: &[u8]) -> Option<&Counted> {
        let tenant = self.tenant.as_ref().filter(|tenant| tenant.key == key);
        tenant
            .map(|tenant| &tenant.counted)
            .or_else(|| self.rows.get(key))
    }

    /// The keys of the rows that were counted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        let last = self.tenant.as_ref().map(|last| &last.key);
        self.rows.keys().chain(last)
    }

    /// Each row that was counted, by its key, once.
    pub(crate) fn into_rows(mut self) -> BTreeMap<Bytes, Counted> {
        if let Some(last) = self.tenant.take() {
            self.rows.insert(last.key, last.counted);
        }
        self.rows
    }

    /// Counts a change of the row under a key, before the row itself changes. A counter that falls below zero is worked out from the
    /// rows, bit by bit.
    pub(crate) fn count<V: View>(
        &mut self,
        (rows, deadlines): (&mut Overlay<V>, &mut Deadlines),
        (space, counter): (Space<'_>, Counter<'_>),
        delta: Delta,
        key: impl FnOnce() -> Bytes,
    ) -> Result<(), Fault> {
        let counted = self.counted(rows.below(), space, counter)?;
        counted.change = counted.change.plus(delta);
        if let Some(recount) = &mut counted.recount {
            recount.note(&key(), delta);
        } else if counted.is_below_zero() {
            return self.begin_recount((rows, deadlines), space, counter);
        }
        Ok(())
    }

    /// Has a counter worked out from the rows, from the first on, also if that goes on already.
    pub(crate) fn recount<V: View>(
        &mut self,
        (rows, deadlines): (&mut Overlay<V>, &mut Deadlines),
        space: Space<'_>,
        counter: Counter<'_>,
    ) -> Result<(), Fault> {
        match self.recount_of(rows.below(), space, counter)? {
            Some(_) => self.go_on_with(rows.below(), space, counter, Recount::default()),
            None => self.begin_recount((rows, deadlines), space, counter),
        }
    }

    /// Below the level, older versions that batch otherwise may see no contradiction: it is left for later.
    #[cold]
    fn begin_recount<V: View>(
        &mut self,
        (rows, deadlines): (&mut Overlay<V>, &mut Deadlines),
        space: Space<'_>,
        counter: Counter<'_>,
    ) -> Result<(), Fault> {
        if level::feature_level(rows, space.group_id)? < level::MENDED {
            return Ok(());
        }
        let now = Some(clock(rows, space.group_id)?);
        deadlines.shift(rows, space, &Due::Recount(counter.name()), (None, now))?;
        self.go_on_with(rows.below(), space, counter, Recount::default())
    }

    /// How far the recount of a counter has come; `None`: there is none.
    pub(crate) fn recount_of(
        &mut self,
        view: &impl View,
        space: Space<'_>,
        counter: Counter<'_>,
    ) -> Result<Option<Recount>, Fault> {
        let counted = self.counted(view, space, counter)?;
        Ok(counted.recount.as_deref().cloned())
    }

    /// Notes how far the recount of a counter has come.
    pub(crate) fn go_on_with(
        &mut self,
        view: &impl View,
        space: Space<'_>,
        counter: Counter<'_>,
        recount: Recount,
    ) -> Result<(), Fault> {
        let counted = self.counted(view, space, counter)?;
        counted.recount = Some(Box::new(recount));
        Ok(())
    }

    /// Ends the recount of a counter with what it found. Says what the counter said, and says now.
    pub(crate) fn end_recount(
        &mut self,
        view: &impl View,
        space: Space<'_>,
        counter: Counter<'_>,
        found: UsageRow,
    ) -> Result<(UsageRow, UsageRow), Fault> {
        let counted = self.counted(view, space, counter)?;
        counted.recount = None;
        let was = counted.now();
        counted.set(found);
        Ok((was, found))
    }

    /// What a counter says, with the changes that are not written yet.
    pub(crate) fn said(
        &self,
        view: &impl View,
        space: Space<'_>,
        counter: Counter<'_>,
    ) -> Result<UsageRow, Fault> {
        let key = counter.key(space);
        match self.get(&key) {
            Some(counted) => Ok(counted.said()),
            None => super::stored(view, &key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoRows;

    impl View for NoRows {
        fn get(&self, _: &[u8]) -> Result<Option<Bytes>, Fault> {
            Ok(None)
        }

        fn range(&self, _: &[u8], _: &[u8], _: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn count_between_others_is_counted_once_and_whole() {
        let space = |tenant| Space {
            group_id: 1,
            tenant,
        };
        let mut pending = PendingUsage::default();
        let (mut rows, mut deadlines) = (Overlay::new(NoRows), Deadlines::default());
        for (tenant, bytes) in [("ann", 1), ("ann", 10), ("bob", 100), ("ann", 1000)] {
            let delta = Delta { rows: 1, bytes };
            let key = || Bytes::from(bytes.to_string());
            let counter = (space(tenant), Counter::Tenant);
            pending
                .count((&mut rows, &mut deadlines), counter, delta, key)
                .unwrap();
        }
        let usage = |tenant| {
            let said = pending.said(&NoRows, space(tenant), Counter::Tenant);
            said.unwrap()
        };
        let (of_ann, of_bob) = (usage("ann"), usage("bob"));
        let sum = |rows, bytes| UsageRow { rows, bytes };
        assert_eq!((of_ann, of_bob), (sum(3, 1011), sum(1, 100)));
        let rows = pending.into_rows();
        let rows: BTreeMap<_, _> = rows.into_iter().map(|(k, c)| (k, c.now())).collect();
        let keys = ["ann", "bob"].map(|tenant| space(tenant).usage().tenant());
        assert_eq!(rows, keys.into_iter().zip([of_ann, of_bob]).collect());
    }
}
