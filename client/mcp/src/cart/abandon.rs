//! Giving a cart up.

use helve_client::{HandleStore, Resolved};

use crate::cart::{
    carts::Carts, error::ToolError, items::why_gone, model::check_name, views::AbandonView,
};

/// Takes the cart, and drops what was in it. Taking rather than deleting leaves a tombstone, so that a second call, be it of the
/// same caller who lost the answer, is told the same.
pub(super) async fn abandon(carts: &Carts, cart_id: &str) -> Result<AbandonView, ToolError> {
    check_name("cart_id", cart_id)?;
    let done = AbandonView {
        cart_id: cart_id.to_owned(),
    };
    match carts.handles.take(cart_id).await? {
        Resolved::Live(_) => Ok(done),
        gone => match why_gone(carts, cart_id, &gone).await? {
            ToolError::Abandoned { .. } => Ok(done),
            error => Err(error),
        },
    }
}
