//! What the tools return.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Cart, Line};

/// An open cart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CartView {
    /// The cart's id: pass it to the other tools.
    pub cart_id: String,
    /// The lines, in the order in which they were added.
    pub lines: Vec<Line>,
    /// Sum of all lines, in cents.
    pub total_cents: u64,
}

impl CartView {
    pub(super) fn of(cart_id: &str, cart: Cart) -> Self {
        let total_cents = cart.total_cents();
        Self {
            cart_id: cart_id.to_owned(),
            lines: cart.lines,
            total_cents,
        }
    }
}

/// A cart that is no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AbandonView {
    /// The cart's id. No tool takes it any more.
    pub cart_id: String,
}

/// Open carts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CartList {
    /// At most 100.
    pub carts: Vec<CartView>,
    /// How many open carts there are in all.
    pub open: u64,
    /// Ids under which something else than a cart is stored, which is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}
