//! Logins under way: begun on one replica, completed on any, once.

use std::time::Duration;

use async_trait::async_trait;
use helve_client::{ErrorKind, Ttl};
use helve_request_state::client_state::{ClientState, SealedRecords};
use rmcp::transport::auth::{AuthError, StateStore, StoredAuthorizationState};
use zeroize::Zeroizing;

use super::{
    credentials::{decode, failed},
    digest::digest,
};

/// How long a login may take by default: ten minutes, as long as an authorization code at most
/// should live (RFC 6749, section 4.1.2).
pub const LOGIN_TTL: Duration = Duration::from_secs(10 * 60);

/// rmcp's [`StateStore`] in the cluster: PKCE verifier and CSRF token of logins under way, sealed, under a digest of the CSRF token.
/// The browser may come back to another replica than it left from. Of several callbacks with one CSRF token, on any replicas, one
/// exchanges its code; to the others the login is over.
#[derive(Debug, Clone)]
pub struct Logins {
    records: SealedRecords,
    place: String,
    ttl: Duration,
}

impl Logins {
    /// The logins of this client towards this server.
    #[must_use]
    pub fn new(state: &ClientState) -> Self {
        Self {
            records: state.records().clone(),
            place: format!("{}/logins", state.place()),
            ttl: LOGIN_TTL,
        }
    }

    /// How long a login may take; [`LOGIN_TTL`] if not told.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }
}

#[async_trait]
impl StateStore for Logins {
    async fn save(
        &self,
        csrf_token: &str,
        state: StoredAuthorizationState,
    ) -> Result<(), AuthError> {
        let json = serde_json::to_vec(&state).map_err(|_| {
            AuthError::InternalError("the state of the login has no JSON form".to_owned())
        })?;
        let (plain, field) = (Zeroizing::new(json), digest(csrf_token));
        let ttl = Ttl::After(self.ttl);
        let stored = self
            .records
            .store(&self.place, &field, &plain, ttl, Some(0));
        match stored.await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict { .. }) => {
                let message = "there is a login of this CSRF token: begin another".to_owned();
                Err(AuthError::AuthorizationFailed(message))
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn load(&self, csrf_token: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        let field = digest(csrf_token);
        let opened = self.records.retrieve(&self.place, &field).await;
        let opened = opened.map_err(failed)?;
        opened.map(|opened| decode(&opened.plain)).transpose()
    }

    /// rmcp calls this between the check of a callback and the exchange of its code: an error means that another callback was first.
    async fn delete(&self, csrf_token: &str) -> Result<(), AuthError> {
        let deleted = self.records.delete(&self.place, &digest(csrf_token)).await;
        if deleted.map_err(failed)? {
            return Ok(());
        }
        let message = "another callback completed this login, or it has expired: begin another";
        Err(AuthError::AuthorizationFailed(message.to_owned()))
    }
}
