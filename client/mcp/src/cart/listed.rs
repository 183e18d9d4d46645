//! Carts of a list, read one by one: a record that is no cart must not hide the others.

use helve_client::{
    Client, Error, Owner, exact,
    v1::{ListRequest, ListedHandle},
};

use super::model::Cart;

/// The carts of a store, and what else is stored among them.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// By id, in the order of ids.
    pub(crate) carts: Vec<(String, Cart)>,
    /// The ids of records whose values are no carts.
    pub(crate) unreadable: Vec<String>,
}

impl Listed {
    /// Lists the carts of this store under this owner, and at most `max` records; 0: all.
    ///
    /// # Errors
    /// Those of every list.
    pub(crate) async fn read(
        client: &Client,
        store: &str,
        owner: &Owner,
        max: u64,
    ) -> Result<Self, Error> {
        let request = ListRequest {
            store: store.to_owned(),
            owner: Some(owner.on_wire()?),
            with_values: true,
            handles_max: max,
            ..ListRequest::default()
        };
        let parts = client.list_handles(request).await?;
        let handles = parts.into_iter().flat_map(|part| part.handles);
        // A node of an older version knows no maximum.
        let max = match usize::try_from(max) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(max) => max,
        };
        let mut listed = Self::default();
        handles.take(max).for_each(|handle| listed.add(handle));
        Ok(listed)
    }

    fn add(&mut self, handle: ListedHandle) {
        let id = handle.info.unwrap_or_default().name;
        match exact::parse(&handle.value) {
            Ok(cart) => self.carts.push((id, cart)),
            Err(error) => {
                tracing::warn!(%id, %error, "a record in the carts' store is no cart: it is left out");
                self.unreadable.push(id);
            }
        }
    }
}
