//! The server, and what it needs to know.

use std::{fmt, sync::Arc, time::Duration};

use helve_client::{Client, HandleOptions, KeyOptions};
use http::request::Parts;
use rmcp::{handler::server::router::tool::ToolRouter, model::Extensions};

use super::{
    carts::{Carts, ID_PREFIX},
    error::ToolError,
    owners::{Anonymous, Authenticated, Owners},
    tools,
};
use crate::serve::Versions;

/// What a cart server needs to know.
#[derive(Clone)]
pub struct Settings {
    /// The store of the carts' handles. Servers of the same store on the same cluster are replicas of each other.
    pub store: String,
    /// How long a cart lives without being touched.
    pub idle_ttl: Duration,
    /// Whose carts a request is about; by default the [`Authenticated`] caller's. So a missing
    /// setting gives no caller the carts of others.
    pub owners: Arc<dyn Owners>,
    /// Which protocol versions are spoken.
    pub versions: Versions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: "cart".to_owned(),
            idle_ttl: Duration::from_secs(24 * 60 * 60),
            owners: Arc::new(Authenticated),
            versions: Versions::default(),
        }
    }
}

impl Settings {
    /// The settings of a server whose callers need no token, and share all carts.
    #[must_use]
    pub fn shared() -> Self {
        Self {
            owners: Arc::new(Anonymous),
            ..Self::default()
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
    pub(super) settings: Arc<Settings>,
    pub(super) router: Arc<ToolRouter<Self>>,
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
    pub(super) fn carts(&self, extensions: &Extensions) -> Result<Carts, ToolError> {
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
