//! Records in the carts' store that are no carts.

use helve_mcp::cart::{CartList, CartView};
use serde_json::json;

use crate::{House, object};

#[tokio::test]
async fn record_that_is_no_cart_is_named_and_hides_no_other() {
    let house = House::open(1).await;
    let mut caller = house.caller();
    let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
    house.spoil("cart-0").await;
    let list: CartList = caller.call("list_carts", object(json!({}))).await.unwrap();
    assert_eq!((list.open, list.carts.len()), (1, 1));
    assert_eq!(list.carts[0].cart_id, cart.cart_id);
    assert_eq!(list.unreadable, ["cart-0"]);
    // The verdict on flows reads the same store.
    let held = house.held().await;
    let unreadable: Vec<_> = held.unreadable.iter().map(String::as_str).collect();
    assert_eq!(unreadable, ["cart-0", "orders/cart-0"]);
    assert_eq!(
        (held.carts_counted, held.carts.len(), held.orders.len()),
        (1, 1, 0)
    );
}
