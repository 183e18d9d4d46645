//! Listing an owner's open carts.

use helve_client::HandleStore as _;

use crate::cart::{
    carts::Carts,
    error::ToolError,
    listed::Listed,
    views::{CartList, CartView},
};

/// How many carts are shown.
const SHOWN_MAX: u64 = 100;

/// The open carts, by id. Looking at the list does not keep them from expiring.
pub(super) async fn list(carts: &Carts) -> Result<CartList, ToolError> {
    let Listed {
        carts: first,
        unreadable,
    } = Listed::read(&carts.client, &carts.store, &carts.owner, SHOWN_MAX).await?;
    let (shown, left_out) = (first.len() as u64, unreadable.len() as u64);
    // Those that are not shown are not read either, however many they are.
    let open = if shown + left_out < SHOWN_MAX {
        shown
    } else {
        let all = carts.handles.len().await?;
        all.saturating_sub(left_out).max(shown)
    };
    let carts = first
        .into_iter()
        .map(|(id, cart)| CartView::of(&id, cart))
        .collect();
    Ok(CartList {
        carts,
        open,
        unreadable,
    })
}
