//! Checking a cart out, once.

use helve_client::{Error, ErrorKind, StateTool, Transacted, Ttl};

use crate::cart::{
    carts::{Carts, ROUNDS_MAX, busy},
    error::ToolError,
    items::open_cart,
    model::{Order, check_name},
};

/// Takes the cart and stores its order, in one transaction. A second call, perhaps of the same
/// caller who lost the answer, finds no cart, but the order, and returns it.
pub(super) async fn checkout(carts: &Carts, cart_id: &str) -> Result<Order, ToolError> {
    check_name("cart_id", cart_id)?;
    for _ in 0..ROUNDS_MAX {
        let cart = match open_cart(carts, cart_id).await {
            Ok(cart) => cart,
            Err(gone @ ToolError::CheckedOut { .. }) => {
                return order_of(carts, cart_id).await?.ok_or(gone);
            }
            Err(error) => return Err(error),
        };
        if cart.value.lines.is_empty() {
            return Err(ToolError::CartEmpty);
        }
        let order = Order::of(cart_id, &cart.value);
        let transaction = carts
            .client
            .transaction()
            .take(&carts.handles, cart_id)
            .if_revision(cart.revision())
            .store(&carts.keys, &Order::key(cart_id), &order, Ttl::Never)
            .if_revision(0);
        match transaction.commit().await {
            Ok(Transacted::Committed(_)) => return Ok(order),
            // The cart was changed, taken or expired since it was read: look again.
            Ok(Transacted::Aborted { .. }) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(busy())
}

/// The order that this cart became, if it did.
pub(super) async fn order_of(carts: &Carts, cart_id: &str) -> Result<Option<Order>, ToolError> {
    let key = Order::key(cart_id);
    let Some(order) = carts.keys.retrieve(&key).await? else {
        return Ok(None);
    };
    let order = serde_json::from_value(order).map_err(|error| {
        ToolError::from(Error::new(
            ErrorKind::Codec,
            format!("{key} holds no order: {error}"),
        ))
    })?;
    Ok(Some(order))
}
