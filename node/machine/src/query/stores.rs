//! Reads of what the stores of a tenant hold.

use super::{Scope, UNCHECKED, Usage, space};
use crate::{
    fault::Fault,
    layout::{Unfit, split_store, store_path},
    usage,
    view::{View, after as next_key},
};

/// A store of handles, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUsage {
    /// Its name.
    pub store: String,
    /// What its handles take, expired ones that are not removed yet included.
    pub usage: Usage,
}

/// What a store holds; nothing, if there is no such store.
///
/// # Errors
/// A fault if the row cannot be read, or `store` is longer than a name.
pub fn store_usage(view: &impl View, scope: &Scope<'_>, store: &str) -> Result<Usage, Fault> {
    let path = store_path(store).map_err(|Unfit| UNCHECKED)?;
    let space = space(scope.group_id, scope.tenant)?;
    let used = usage::stored(view, &space.usage().store(&path))?;
    Ok(Usage {
        rows: used.rows,
        bytes: used.bytes,
    })
}

/// The stores of a tenant: shorter names first, those of one length in the order of their bytes. Begins behind
/// `after`, which need not exist, or with the first if that is empty. Looks at `rows_max` rows at most, and says whether any follow.
///
/// # Errors
/// A fault if the rows cannot be read, or `after` is longer than a name.
pub fn list_stores<V: View>(
    view: &V,
    scope: &Scope<'_>,
    after: &str,
    rows_max: usize,
) -> Result<(Vec<StoreUsage>, bool), Fault> {
    let space = space(scope.group_id, scope.tenant)?;
    let span = space.usage().stores();
    let from = match after {
        "" => span.prefix.clone(),
        name => {
            let path = store_path(name).map_err(|Unfit| UNCHECKED)?;
            next_key(&space.usage().store(&path))
        }
    };
    // One row more than is wanted says whether any follows.
    let rows = view.range(&from, &span.end, rows_max + 1)?;
    let has_more = rows.len() > rows_max;
    let mut listed = Vec::new();
    for (key, _) in rows.iter().take(rows_max) {
        let (name, _) = split_store(&key[span.prefix.len()..])
            .ok_or(Fault::Corrupt("the name of a store is cut short"))?;
        let used = usage::stored(view, key)?;
        listed.push(StoreUsage {
            store: super::scan::text(name)?.to_owned(),
            usage: Usage {
                rows: used.rows,
                bytes: used.bytes,
            },
        });
    }
    Ok((listed, has_more))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ops::Bound};

    use bytes::Bytes;
    use helve_proto::command::v1::CountedRow;

    use super::*;
    use crate::{layout::Space, row};

    const GROUP: u32 = 1;

    struct Rows(BTreeMap<Bytes, Bytes>);

    impl View for Rows {
        fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
            Ok(self.0.get(key).cloned())
        }

        fn range(
            &self,
            from: &[u8],
            to: &[u8],
            rows_max: usize,
        ) -> Result<Vec<(Bytes, Bytes)>, Fault> {
            if from >= to {
                return Ok(Vec::new());
            }
            let bounds = (Bound::Included(from), Bound::Excluded(to));
            let rows = self.0.range::<[u8], _>(bounds).take(rows_max);
            Ok(rows.map(|(k, v)| (k.clone(), v.clone())).collect())
        }
    }

    /// Tenants, their stores, and how many rows each holds.
    fn holding(stores: &[(&str, &str, u64)]) -> Rows {
        let rows = stores.iter().map(|(tenant, store, rows)| {
            let space = Space {
                group_id: GROUP,
                tenant,
            };
            let key = space
                .usage()
                .store(&store_path(store).expect("a short name"));
            let counted = CountedRow {
                rows: *rows,
                bytes: 10 * rows,
                recount: None,
            };
            (key, row::encode(&counted))
        });
        Rows(rows.collect())
    }

    fn listed(rows: &Rows, tenant: &str, after: &str, rows_max: usize) -> (Vec<String>, bool) {
        let scope = Scope {
            group_id: GROUP,
            tenant,
            stamp_ms: 0,
        };
        let (stores, has_more) = list_stores(rows, &scope, after, rows_max).expect("whole rows");
        let name = |found: StoreUsage| format!("{} {}", found.store, found.usage.rows);
        (stores.into_iter().map(name).collect(), has_more)
    }

    #[test]
    fn stores_are_listed_in_pages_for_their_tenant_alone() {
        let rows = holding(&[
            ("a", "carts", 3),
            ("a", "orders", 2),
            ("a", "logins", 1),
            ("b", "carts", 7),
        ]);
        let all = ["carts 3", "logins 1", "orders 2"].map(str::to_owned);
        assert_eq!(listed(&rows, "a", "", 9), (all.to_vec(), false));
        assert_eq!(listed(&rows, "a", "", 2), (all[..2].to_vec(), true));
        assert_eq!(listed(&rows, "a", "logins", 2), (all[2..].to_vec(), false));
        assert_eq!(listed(&rows, "a", "k", 9).0, all);
        assert_eq!(listed(&rows, "b", "", 9).0, ["carts 7"]);
        assert_eq!(listed(&rows, "c", "", 9), (Vec::new(), false));
        let scope = Scope {
            group_id: GROUP,
            tenant: "b",
            stamp_ms: 0,
        };
        let used = |store| store_usage(&rows, &scope, store).expect("a whole row").rows;
        assert_eq!((used("carts"), used("orders")), (7, 0));
    }
}
