//! The example cart server: a stateless MCP server whose carts live under Helve handles.
//!
//! It is right when a replica dies after its write and the client calls again elsewhere:
//!
//! - `create_cart` with an idempotency key writes the cart and the key in one transaction, so a second call finds the first's;
//! - `add_item` records the caller's line id in the cart, by a compare-and-swap loop: a line that is there is not added again;
//! - `checkout` takes the cart and stores the order under the cart's id in one transaction: whoever comes second finds no cart,
//!   but the order;
//! - `abandon_cart` takes the cart without an order.
//!
//! What was taken leaves a tombstone for a day, so that the tools can say expired, checked out, abandoned or unknown.

mod abandon;
mod checkout;
mod create;
mod error;
mod items;
mod list;
pub(crate) mod listed;
mod model;
mod owners;
mod tools;

use std::{fmt, sync::Arc, time::Duration};

use helve_client::{Client, Error, ErrorKind, HandleOptions, Handles, KeyOptions, Keys, Owner};
use http::request::Parts;
use rmcp::{handler::server::router::tool::ToolRouter, model::Extensions};

use crate::serve::Versions;

pub use self::{
    error::{REASON, ToolError, UNAVAILABLE},
    model::{Added, Cart, LINES_MAX, Line, NAME_BYTES_MAX, ORDERS, Order},
    owners::{Anonymous, Authenticated, Owners},
    tools::{AbandonView, CartList, CartView, READING_TOOLS},
};

/// The prefix of minted cart ids.
const ID_PREFIX: &str = "cart";
/// How often a transaction that others got ahead of is tried anew before the caller is asked to call again.
const ROUNDS_MAX: usize = 8;

/// What a cart server needs to know.
#[derive(Clone)]
pub struct Settings {
    /// The store of the carts' handles. Servers of the same store on the same cluster are replicas of each other.
    pub store: String,
    /// How long a cart lives without being touched.
    pub idle_ttl: Duration,
    /// Whose carts a request is about.
    pub owners: Arc<dyn Owners>,
    /// Which protocol versions are spoken.
    pub versions: Versions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: "cart".to_owned(),
            idle_ttl: Duration::from_secs(24 * 60 * 60),
            owners: Arc::new(Anonymous),
            versions: Versions::default(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            store, idle_ttl, ..
        } = self;
        f.debug_struct("Settings")
            .field("store", store)
            .field("idle_ttl", idle_ttl)
            .finish_non_exhaustive()
    }
}

/// The server. It holds no state of its own: clones, and replicas elsewhere, are all the same.
#[derive(Debug, Clone)]
pub struct CartServer {
    client: Client,
    settings: Arc<Settings>,
    router: Arc<ToolRouter<Self>>,
}

impl CartServer {
    /// A server of the carts that this client reaches.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> Self {
        let router = Arc::new(tools::router(settings.idle_ttl));
        Self {
            client,
            settings: Arc::new(settings),
            router,
        }
    }

    /// The carts that this request is about.
    fn carts(&self, extensions: &Extensions) -> Result<Carts, ToolError> {
        let Settings {
            store,
            idle_ttl,
            owners,
            ..
        } = &*self.settings;
        let owner = owners.owner(extensions.get::<Parts>())?;
        let handles = HandleOptions::new(store.as_str(), owner.clone())
            .id_prefix(ID_PREFIX)
            .idle_ttl(*idle_ttl);
        Ok(Carts {
            client: self.client.clone(),
            store: store.clone(),
            owner: owner.clone(),
            handles: self.client.handles(handles),
            keys: self.client.keys(KeyOptions::new(owner)),
        })
    }
}

/// One owner's carts, orders and idempotency keys.
struct Carts {
    client: Client,
    /// Keys know no stores: what is kept under them beside the carts bears this name.
    store: String,
    owner: Owner,
    handles: Handles<Cart>,
    keys: Keys,
}

/// Others got ahead every time.
fn busy() -> ToolError {
    Error::new(
        ErrorKind::Overloaded,
        "too many callers change this at once",
    )
    .into()
}
