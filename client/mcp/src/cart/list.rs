//! Listing an owner's open carts.

use helve_client::HandleStore;

use crate::cart::{
    Carts,
    error::ToolError,
    tools::{CartList, CartView},
};

/// How many carts are shown.
const SHOWN_MAX: usize = 100;

/// The open carts, by id. Looking at the list does not keep them from expiring.
pub(super) async fn list(carts: &Carts) -> Result<CartList, ToolError> {
    let listing = carts.handles.list_values().await?;
    let open = listing.items.len() as u64;
    let shown = listing.items.into_iter().take(SHOWN_MAX);
    let carts = shown
        .map(|record| CartView::of(&record.info.name, record.value))
        .collect();
    Ok(CartList { carts, open })
}
