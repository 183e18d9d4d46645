//! What a node holds of carts and orders: the other side of the verdict.

use std::collections::{BTreeMap, BTreeSet};

use helve_client::{
    Client, Error, HandleOptions, HandleStore as _, Owner, exact,
    v1::{KeyRecord, ListKeysRequest},
};

use crate::cart::{Cart, ORDERS, Order, listed::Listed};

/// Carts and orders as one node answers them.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Open carts, by id.
    pub carts: BTreeMap<String, Cart>,
    /// How many open carts the node counts.
    pub carts_counted: u64,
    /// Orders, by cart id.
    pub orders: BTreeMap<String, Order>,
    /// Records that are no carts, and no orders: they count as neither.
    pub unreadable: BTreeSet<String>,
}

impl Held {
    /// Reads all open carts of this store, and all orders. A record that is neither is named, and left out.
    ///
    /// # Errors
    /// Those of every read.
    pub async fn read(client: &Client, store: &str) -> Result<Self, Error> {
        let request = ListKeysRequest {
            prefix: ORDERS.to_owned(),
            with_values: true,
            ..ListKeysRequest::default()
        };
        let parts = client.list_keys(request).await?;
        let Listed { carts, unreadable } = Listed::read(client, store, &Owner::shared(), 0).await?;
        let handles = client.handles::<Cart>(HandleOptions::shared(store));
        let counted = handles.len().await?;
        let mut held = Self {
            carts_counted: counted.saturating_sub(unreadable.len() as u64),
            carts: carts.into_iter().collect(),
            orders: BTreeMap::new(),
            unreadable: unreadable.into_iter().collect(),
        };
        let records = parts.into_iter().flat_map(|part| part.records);
        records.for_each(|record| held.add_order(record));
        Ok(held)
    }

    fn add_order(&mut self, record: KeyRecord) {
        let key = record.info.unwrap_or_default().name;
        match exact::parse(&record.value) {
            Ok(order) => {
                let cart_id = key.trim_start_matches(ORDERS).to_owned();
                self.orders.insert(cart_id, order);
            }
            Err(error) => {
                tracing::warn!(%key, %error, "a record among the orders is no order: it is left out");
                self.unreadable.insert(key);
            }
        }
    }

    /// The ids of all carts, open or checked out.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<String> {
        self.carts
            .keys()
            .chain(self.orders.keys())
            .cloned()
            .collect()
    }

    /// Leaves out the carts with these ids, and their orders: those that were there before a run began.
    #[must_use]
    pub fn without(mut self, ids: &BTreeSet<String>) -> Self {
        let listed = self.carts.len() as u64;
        self.carts.retain(|id, _| !ids.contains(id));
        self.orders.retain(|id, _| !ids.contains(id));
        // A count that differs from the list must differ as before.
        let left_out = listed - self.carts.len() as u64;
        self.carts_counted = self.carts_counted.saturating_sub(left_out);
        self
    }
}
