//! Changes of usage rows that are not written yet. All commands of a busy tenant change its own row, most of them several times: that
//! one is added up without a look for its key.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{layout::Space, usage::Delta};

#[derive(Debug, Default)]
pub(super) struct PendingUsage {
    /// The tenant that was counted for last, and the change of its row that is not among `rows` yet.
    tenant: Option<Tenant>,
    rows: BTreeMap<Bytes, Delta>,
}

#[derive(Debug)]
struct Tenant {
    group_id: u32,
    name: String,
    key: Bytes,
    delta: Delta,
}

impl PendingUsage {
    pub(super) fn add_tenant(&mut self, space: Space<'_>, delta: Delta) {
        match &mut self.tenant {
            Some(last) if last.name == space.tenant && last.group_id == space.group_id => {
                last.delta = last.delta.plus(delta);
            }
            other => {
                let next = Tenant {
                    group_id: space.group_id,
                    name: space.tenant.to_owned(),
                    key: space.usage_tenant(),
                    delta,
                };
                if let Some(last) = other.replace(next) {
                    self.add(last.key, last.delta);
                }
            }
        }
    }

    pub(super) fn add(&mut self, key: Bytes, delta: Delta) {
        let sum = self.rows.entry(key).or_default();
        *sum = sum.plus(delta);
    }

    pub(super) fn pending(&self, key: &[u8]) -> Delta {
        let rows = self.rows.get(key).copied().unwrap_or_default();
        let tenant = self.tenant.as_ref().filter(|tenant| tenant.key == key);
        rows.plus(tenant.map(|tenant| tenant.delta).unwrap_or_default())
    }

    /// Each row that changes, by its key, once.
    pub(super) fn into_rows(mut self) -> BTreeMap<Bytes, Delta> {
        if let Some(last) = self.tenant.take() {
            self.add(last.key, last.delta);
        }
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_counts_between_others_is_counted_once_and_whole() {
        let space = |tenant| Space {
            group_id: 1,
            tenant,
        };
        let delta = |bytes| Delta { rows: 1, bytes };
        let mut usage = PendingUsage::default();
        usage.add_tenant(space("ann"), delta(1));
        usage.add_tenant(space("ann"), delta(10));
        usage.add_tenant(space("bob"), delta(100));
        usage.add_tenant(space("ann"), delta(1000));
        let (ann, bob) = (space("ann").usage_tenant(), space("bob").usage_tenant());
        let (of_ann, of_bob) = (
            Delta {
                rows: 3,
                bytes: 1011,
            },
            delta(100),
        );
        assert_eq!((usage.pending(&ann), usage.pending(&bob)), (of_ann, of_bob));
        let rows = usage.into_rows();
        assert_eq!(rows, [(ann, of_ann), (bob, of_bob)].into());
    }
}
