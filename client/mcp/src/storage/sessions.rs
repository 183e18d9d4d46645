//! Sessions of clients before protocol 2026-07-28: any replica goes on with what another began.

use std::time::Duration;

use async_trait::async_trait;
use helve_client::{
    Client, Error, ErrorKind, HandleOptions, HandleStore, Handles, Owner, PutOutcome, Ttl,
};
use rmcp::transport::streamable_http_server::session::{
    SessionState, SessionStore, SessionStoreError,
};

use super::digest::digest;

/// The store of handles that sessions stand in, if the options name no other.
pub const SESSIONS: &str = "mcp-sessions";

/// A day.
const IDLE_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Which sessions, and how long they live.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    store: String,
    owner: Owner,
    idle_ttl: Duration,
}

impl SessionOptions {
    /// This owner's sessions: those of another are unknown.
    pub fn new(owner: impl Into<Owner>) -> Self {
        Self {
            store: SESSIONS.to_owned(),
            owner: owner.into(),
            idle_ttl: IDLE_TTL,
        }
    }

    /// As [`new`](Self::new), for a server that does not know its callers: of [`Owner::shared`].
    #[must_use]
    pub fn shared() -> Self {
        Self::new(Owner::shared())
    }

    /// The name of the store of handles: servers of the same name on the same cluster are replicas of each other. 1 to 64 bytes
    /// of `[a-z0-9_-]`; [`SESSIONS`] by default.
    #[must_use]
    pub fn store(mut self, store: impl Into<String>) -> Self {
        self.store = store.into();
        self
    }

    /// The same options for another owner.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Owner>) -> Self {
        self.owner = owner.into();
        self
    }

    /// How long a session is kept that no replica begins or takes up; a day by default. A replica that already knows a session
    /// serves it without asking here, so let this be much longer than the time a client stays with one replica.
    #[must_use]
    pub fn idle_ttl(mut self, ttl: Duration) -> Self {
        self.idle_ttl = ttl;
        self
    }
}

/// rmcp's [`SessionStore`] in the cluster: what each session's client said when it began it, under
/// a digest of the session's id. Set it as `session_store` of rmcp's `StreamableHttpServerConfig`;
/// a replica that is asked about a session that it does not know then takes it up, and the client
/// need not start over.
///
/// A session's id proves nothing about who sends it: authenticate every request. A session that its client ends leaves the
/// store at once; a replica that has served it forgets it only when its own session manager's time is over.
#[derive(Debug, Clone)]
pub struct Sessions {
    handles: Handles<SessionState>,
}

impl Sessions {
    /// Sessions that this client reaches.
    #[must_use]
    pub fn new(client: &Client, options: SessionOptions) -> Self {
        let handles = HandleOptions::new(options.store, options.owner).idle_ttl(options.idle_ttl);
        Self {
            handles: client.handles(handles),
        }
    }

    /// Ends the idlest sessions of this owner if there are `max` or more, so that nine tenths of `max` stay, and returns how many
    /// ended: ending many at once makes it rare that all must be listed.
    ///
    /// # Errors
    /// Those of every read and write. Then none or some have ended.
    pub async fn keep(&self, max: u64) -> Result<usize, Error> {
        if self.handles.len().await? < max {
            return Ok(0);
        }
        let mut sessions = self.handles.list().await?.items;
        sessions.sort_by_key(|session| session.idle_deadline_ms);
        let kept = usize::try_from(max - max.div_ceil(10)).unwrap_or(usize::MAX);
        let surplus = sessions.len().saturating_sub(kept);
        for session in &sessions[..surplus] {
            self.handles.delete(&session.name).await?;
        }
        Ok(surplus)
    }
}

#[async_trait]
impl SessionStore for Sessions {
    /// An error of the cluster is one here, too, never "no such session": the client would throw away a session that lives.
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        Ok(self.handles.get(&digest(session_id)).await?)
    }

    /// A session that has lapsed is not brought back: that is an error of kind [`Conflict`](ErrorKind::Conflict).
    async fn store(&self, session_id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let id = digest(session_id);
        let write = async |revision| {
            self.handles
                .put_if(&id, state, Ttl::Default, revision)
                .await
        };
        let mut outcome = write(0).await?;
        if let PutOutcome::Conflict { revision } = outcome {
            outcome = write(revision).await?;
        }
        let (revision, message) = match outcome {
            PutOutcome::Created(_) | PutOutcome::Replaced(_) => return Ok(()),
            PutOutcome::Conflict { revision } => {
                (revision, "two replicas store one session at once")
            }
            PutOutcome::Expired | PutOutcome::Taken => (0, "the session has lapsed: begin another"),
        };
        let kind = ErrorKind::Conflict {
            revision,
            operation: 0,
        };
        Err(Error::new(kind, message).into())
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        self.handles.delete(&digest(session_id)).await?;
        Ok(())
    }
}
