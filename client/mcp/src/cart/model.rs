//! What a cart is, and how it changes. Pure: no store, no protocol.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cart::error::ToolError;

/// How many lines a cart may hold.
pub const LINES_MAX: usize = 128;
/// How long a line id, product code or idempotency key may be, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// How many pieces one line may order.
const QUANTITY_MAX: u32 = 10_000;
/// The highest price of a piece, in cents. With the limits above a total cannot overflow.
const PRICE_CENTS_MAX: u64 = 1_000_000_000;

/// One line of a cart or an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The caller's own id of this line: adding the same line again changes nothing.
    pub line_id: String,
    /// Product code.
    pub sku: String,
    /// Number of pieces.
    pub quantity: u32,
    /// Price of one piece, in cents.
    pub unit_price_cents: u64,
}

impl Line {
    fn check(&self) -> Result<(), ToolError> {
        check_name("line_id", &self.line_id)?;
        check_name("sku", &self.sku)?;
        if self.quantity == 0 || self.quantity > QUANTITY_MAX {
            return Err(ToolError::bad_argument(format!(
                "quantity must be 1 to {QUANTITY_MAX}"
            )));
        }
        if self.unit_price_cents > PRICE_CENTS_MAX {
            return Err(ToolError::bad_argument(format!(
                "unit_price_cents must be at most {PRICE_CENTS_MAX}"
            )));
        }
        Ok(())
    }
}

/// Refuses an empty or over-long name; `what` is the argument's name.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), ToolError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(ToolError::bad_argument(format!(
            "{what} must be 1 to {NAME_BYTES_MAX} bytes without NUL"
        )));
    }
    Ok(())
}

/// A cart, as it is stored under its handle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cart {
    /// In the order in which they were added.
    pub lines: Vec<Line>,
}

/// Whether a line was added, or was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The cart changed.
    New,
    /// The cart had this very line: a repeated call.
    Repeated,
}

impl Cart {
    /// Adds a line, once: the same line again is [`Added::Repeated`], so that a caller who lost the answer may call again.
    ///
    /// # Errors
    /// A malformed line, a line id that names another line, or a full cart.
    pub fn add(&mut self, line: Line) -> Result<Added, ToolError> {
        line.check()?;
        if let Some(held) = self.lines.iter().find(|held| held.line_id == line.line_id) {
            return if *held == line {
                Ok(Added::Repeated)
            } else {
                Err(ToolError::LineMismatch {
                    line_id: line.line_id,
                })
            };
        }
        if self.lines.len() >= LINES_MAX {
            return Err(ToolError::CartFull);
        }
        self.lines.push(line);
        Ok(Added::New)
    }

    /// The sum of all lines, in cents.
    #[must_use]
    pub fn total_cents(&self) -> u64 {
        self.lines
            .iter()
            .map(|line| u64::from(line.quantity) * line.unit_price_cents)
            .sum()
    }
}

/// What a checked-out cart became. It is stored under `orders/<cart id>` and never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Order {
    /// The cart that was checked out; it names the order too.
    pub cart_id: String,
    /// The cart's lines.
    pub lines: Vec<Line>,
    /// Sum of all lines, in cents.
    pub total_cents: u64,
}

impl Order {
    /// The order that this cart becomes.
    #[must_use]
    pub fn of(cart_id: &str, cart: &Cart) -> Self {
        Self {
            cart_id: cart_id.to_owned(),
            lines: cart.lines.clone(),
            total_cents: cart.total_cents(),
        }
    }

    /// The key under which a cart's order is stored.
    #[must_use]
    pub fn key(cart_id: &str) -> String {
        format!("{ORDERS}{cart_id}")
    }
}

/// The prefix of all orders' keys.
pub const ORDERS: &str = "orders/";

#[cfg(test)]
mod tests {
    use super::{Added, Cart, LINES_MAX, Line};
    use crate::cart::error::ToolError;

    fn line(id: &str, quantity: u32) -> Line {
        Line {
            line_id: id.into(),
            sku: "tea".into(),
            quantity,
            unit_price_cents: 250,
        }
    }

    #[test]
    fn a_repeated_line_changes_nothing() {
        let mut cart = Cart::default();
        assert_eq!(cart.add(line("a", 2)).unwrap(), Added::New);
        assert_eq!(cart.add(line("a", 2)).unwrap(), Added::Repeated);
        assert_eq!((cart.lines.len(), cart.total_cents()), (1, 500));
    }

    #[test]
    fn a_line_id_names_one_line_only() {
        let mut cart = Cart::default();
        cart.add(line("a", 2)).unwrap();
        assert!(matches!(
            cart.add(line("a", 3)),
            Err(ToolError::LineMismatch { .. })
        ));
    }

    #[test]
    fn a_malformed_line_and_one_too_many_are_refused() {
        let mut cart = Cart::default();
        for bad in [
            line("", 1),
            line("a", 0),
            line("a", 10_001),
            line(&"x".repeat(129), 1),
        ] {
            assert!(matches!(cart.add(bad), Err(ToolError::BadArgument { .. })));
        }
        for n in 0..LINES_MAX {
            cart.add(line(&n.to_string(), 1)).unwrap();
        }
        assert!(matches!(
            cart.add(line("over", 1)),
            Err(ToolError::CartFull)
        ));
    }
}
