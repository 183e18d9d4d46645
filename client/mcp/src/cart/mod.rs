//! The example cart server: a stateless MCP server whose carts live under Helve handles.
//!
//! It is right when a replica dies after its write and the client calls again elsewhere:
//!
//! - `create_cart` with an idempotency key writes the cart and the key in one transaction, so a second call finds the first's;
//! - `add_item` records the caller's line id in the cart, by a compare-and-swap loop: a line that is there is not added again;
//! - `checkout` takes the cart and stores the order under the cart's id in one transaction: a
//!   second call finds no cart, but the order;
//! - `abandon_cart` takes the cart without an order.
//!
//! What was taken leaves a tombstone for a day, so that the tools can say expired, checked out, abandoned or unknown.

mod abandon;
mod carts;
mod checkout;
mod create;
mod error;
mod items;
mod list;
pub(crate) mod listed;
mod model;
mod owners;
mod server;
mod tools;
mod views;

pub use self::{
    error::{REASON, ToolError, UNAVAILABLE},
    model::{Added, Cart, LINES_MAX, Line, NAME_BYTES_MAX, ORDERS, Order},
    owners::{Anonymous, Authenticated, Owners},
    server::{CartServer, Settings},
    tools::READING_TOOLS,
    views::{AbandonView, CartList, CartView},
};
