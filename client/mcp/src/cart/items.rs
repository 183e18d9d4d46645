//! Looking at a cart, and adding to it.

use helve_client::{HandleStore, HandleStoreExt, Record, Resolved};

use crate::cart::{
    carts::Carts,
    checkout::order_of,
    error::ToolError,
    model::{Added, Cart, Line, check_name},
    views::CartView,
};

/// The open cart of this id.
pub(super) async fn view(carts: &Carts, cart_id: &str) -> Result<CartView, ToolError> {
    let Record { value: cart, .. } = open_cart(carts, cart_id).await?;
    Ok(CartView::of(cart_id, cart))
}

/// Adds a line, unless the cart has it: a repeated call answers the cart as it is.
pub(super) async fn add_item(
    carts: &Carts,
    cart_id: &str,
    line: Line,
) -> Result<CartView, ToolError> {
    check_name("cart_id", cart_id)?;
    let add = |mut cart: Cart| match cart.add(line.clone()) {
        Ok(Added::New) => Ok(cart),
        Ok(Added::Repeated) => Err(Unwritten::Repeated(cart)),
        Err(error) => Err(Unwritten::Refused(error)),
    };
    match carts.handles.try_update(cart_id, add).await? {
        Ok(Resolved::Live(record)) => Ok(CartView::of(cart_id, record.value)),
        Ok(gone) => Err(why_gone(carts, cart_id, &gone).await?),
        Err(Unwritten::Repeated(cart)) => Ok(CartView::of(cart_id, cart)),
        Err(Unwritten::Refused(error)) => Err(error),
    }
}

/// Why an update writes nothing.
enum Unwritten {
    Repeated(Cart),
    Refused(ToolError),
}

/// The cart with its revision, if it is open; else the error that says what became of it.
pub(super) async fn open_cart(carts: &Carts, cart_id: &str) -> Result<Record<Cart>, ToolError> {
    check_name("cart_id", cart_id)?;
    match carts.handles.resolve(cart_id).await? {
        Resolved::Live(record) => Ok(record),
        gone => Err(why_gone(carts, cart_id, &gone).await?),
    }
}

/// What became of a cart that is not open. A cart is taken by its checkout, which leaves an order, or by its abandonment, which
/// leaves none. An order outlives its cart's tombstone.
pub(super) async fn why_gone<L: Sync>(
    carts: &Carts,
    cart_id: &str,
    gone: &Resolved<L>,
) -> Result<ToolError, ToolError> {
    let expired = matches!(gone, Resolved::Expired);
    let ordered = !expired && order_of(carts, cart_id).await?.is_some();
    let cart_id = cart_id.to_owned();
    Ok(match gone {
        Resolved::Expired => ToolError::Expired { cart_id },
        _ if ordered => ToolError::CheckedOut { cart_id },
        Resolved::Taken => ToolError::Abandoned { cart_id },
        Resolved::Live(_) | Resolved::Unknown => ToolError::Unknown { cart_id },
    })
}
