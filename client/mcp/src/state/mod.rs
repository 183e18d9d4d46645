//! The state tool as an MCP server: JSON values under keys, for any client in any language.
//!
//! It holds nothing between requests. What a request is about comes with it, and what it leaves is stored in the cluster, so any
//! replica answers any request, and a client that is connected survives a restart of the server. Which tools there are is
//! settled by the [gate] when the server is built, and is the same for every client.

mod answers;
mod arguments;
mod call;
mod change;
mod confirm;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub mod gate;
mod handler;
mod reads;
mod room;
#[cfg(test)]
mod tests;
mod tools;
mod unsealed;

use std::{fmt, sync::Arc, time::Duration};

use helve_client::{Client, KeyOptions};
use helve_request_state::state_codec::{SingleUse, StateCodec};
use rmcp::model::Extensions;

pub use self::{
    answers::{
        Deleted, Existence, KeyInfo, Listed, Retrieved, RetrievedBatch, Status, Stored, StoredBatch,
    },
    arguments::{BATCH_KEYS_MAX, LIST_KEYS_MAX},
    error::{REVISION, ToolError},
    handler::{AUDIT, Handler},
    tools::READING_TOOLS,
};
use self::{gate::Gate, unsealed::Unsealed};
pub use crate::callers::Callers;
use crate::{
    boundary::{Boundary, Subjects, Unverified},
    serve::Versions,
};

/// What sealed states are for: they open on servers of the state tool alone.
const AUDIENCE: &str = "helve-state";

/// The server. It holds no state of its own: clones, and replicas elsewhere, are all the same.
pub type StateServer = Boundary<Handler>;

impl Subjects for Callers {
    fn subject(&self, extensions: &Extensions) -> Result<Option<String>, Unverified> {
        // The handler denies a caller without an owner, with or without a state.
        let owner = self.owner(extensions);
        Ok(owner.map(|owner| owner.name().unwrap_or_default().to_owned()))
    }
}

/// What a server of the state tool needs to know.
#[derive(Clone)]
pub struct Settings {
    /// What is served.
    pub gate: Gate,
    /// What confirmations are sealed with; all replicas have its keys. Without it whatever needs a confirmation is refused.
    pub codec: Option<Arc<dyn StateCodec>>,
    /// Whose keys a request is about.
    pub callers: Callers,
    /// How long keys live if a call does not say; none: for ever.
    pub default_ttl: Option<Duration>,
    /// Keys that are not used for this long expire; none: never.
    pub idle_ttl: Option<Duration>,
    /// Which protocol versions are spoken.
    pub versions: Versions,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("gate", &self.gate)
            .field("callers", &self.callers)
            .finish_non_exhaustive()
    }
}

/// A server of the keys that this client reaches. Confirmations that were used are remembered there, too.
#[must_use]
pub fn server(client: &Client, settings: Settings) -> StateServer {
    let mut options = KeyOptions::shared();
    if let Some(ttl) = settings.default_ttl {
        options = options.default_ttl(ttl);
    }
    if let Some(ttl) = settings.idle_ttl {
        options = options.idle_ttl(ttl);
    }
    let codec: Arc<dyn StateCodec> = match &settings.codec {
        Some(codec) => Arc::new(SingleUse::new(Arc::clone(codec), client)),
        None => Arc::new(Unsealed),
    };
    let subjects = Arc::new(settings.callers.clone());
    let handler = Handler::new(client.clone(), options, settings);
    Boundary::new(handler, codec, AUDIENCE).subjects(subjects)
}
