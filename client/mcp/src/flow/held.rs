//! What a node holds of carts and orders: the other side of the verdict.

use std::collections::{BTreeMap, BTreeSet};

use helve_client::{
    Client, Error, ErrorKind, HandleOptions, HandleStore as _, KeyOptions, StateTool as _,
};

use crate::cart::{Cart, ORDERS, Order};

/// Carts and orders as one node answers them.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Open carts, by id.
    pub carts: BTreeMap<String, Cart>,
    /// How many open carts the node counts.
    pub carts_counted: u64,
    /// Orders, by cart id.
    pub orders: BTreeMap<String, Order>,
}

impl Held {
    /// Reads all open carts of this store, and all orders.
    ///
    /// # Errors
    /// Those of every read; [`Codec`](ErrorKind::Codec) if an order is none.
    pub async fn read(client: &Client, store: &str) -> Result<Self, Error> {
        let carts = client.handles::<Cart>(HandleOptions::shared(store));
        let orders = client
            .keys(KeyOptions::shared())
            .list_values(ORDERS)
            .await?;
        let orders = orders.items.into_iter().map(|record| {
            let cart_id = record.info.name.trim_start_matches(ORDERS).to_owned();
            let order: Order = serde_json::from_value(record.value)
                .map_err(|error| Error::new(ErrorKind::Codec, format!("{cart_id}: {error}")))?;
            Ok((cart_id, order))
        });
        let listed = carts.list_values().await?.items.into_iter();
        Ok(Self {
            carts: listed
                .map(|record| (record.info.name, record.value))
                .collect(),
            carts_counted: carts.len().await?,
            orders: orders.collect::<Result<_, Error>>()?,
        })
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
