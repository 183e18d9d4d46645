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
    let first = carts.handles.list_first_values(SHOWN_MAX).await?.items;
    let shown = first.len() as u64;
    // Those that are not shown are not read either, however many they are.
    let open = if first.len() < SHOWN_MAX {
        shown
    } else {
        carts.handles.len().await?.max(shown)
    };
    let carts = first
        .into_iter()
        .map(|record| CartView::of(&record.info.name, record.value))
        .collect();
    Ok(CartList { carts, open })
}
