//! OAuth credentials that replicas share, and the guard under which one of them refreshes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use helve_client::{Error, ErrorKind, Guard, Guards, Ttl, exact};
use helve_request_state::client_state::{ClientState, SealedRecords};
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

/// How long a refresh may take until another replica tries: rmcp gives up a token request after 30 s, and the save needs time, too.
pub const REFRESH_GUARD_TTL: Duration = Duration::from_secs(45);
/// How long a replica waits for others' refreshes: one holder that died, and one that did not.
pub const REFRESH_PATIENCE: Duration = Duration::from_secs(90);

const CREDENTIALS: &str = "credentials";
const REFRESH_GUARD: &str = "refresh-guard";

/// What a refresh answers when another replica was faster. rmcp's errors bear texts alone.
const REPLACED: &str = "another replica has replaced these credentials: ask for the token again";
/// Between tries of a save whose loss would cost a login.
const SAVE_PAUSE: Duration = Duration::from_millis(100);

/// rmcp's [`CredentialStore`] in the cluster: what one client has from one issuer, sealed.
///
/// Replicas refresh one at a time, under a guard that expires. rmcp exchanges the refresh token
/// whenever it has the guard, even if another replica did so while this one waited. So the guard is
/// not given out then: the refresh ends with an error that [`was_replaced`] knows, and the next
/// call for the token gets the new one, as [`access_token`](super::access_token) and
/// [`ReplicatedAuthClient`](super::ReplicatedAuthClient) do.
///
/// A holder that lost its guard because it took too long cannot overwrite newer credentials: what is saved under a guard is
/// written only over what was read under it.
///
/// What nothing here can mend: a process that dies between the issuer's answer and the save takes the new refresh token with it.
/// If the issuer rotates refresh tokens and grants no second use, somebody must log in.
#[derive(Debug, Clone)]
pub struct Credentials {
    records: SealedRecords,
    place: Arc<str>,
    issuer: Arc<str>,
    guards: Guards,
    guard_ttl: Duration,
    patience: Duration,
    view: Arc<Mutex<View>>,
}

/// What this object's manager knows of the credentials. A revision of 0: there are none.
#[derive(Debug, Default)]
struct View {
    /// What was read last outside a guard: what the manager decided by.
    seen: Option<u64>,
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    fence: u64,
    /// What was read under the guard: the only thing that may be overwritten.
    base: u64,
}

/// What a save may overwrite.
enum Over {
    /// What is there: a login is newer than all before.
    Any,
    /// This revision alone.
    Read(u64),
}

impl Credentials {
    /// What this client has from this issuer, for one manager: clones share what it has seen.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the issuer is empty.
    pub fn new(state: &ClientState, issuer: &str) -> Result<Self, Error> {
        Ok(Self {
            records: state.records().clone(),
            place: state.issuer_place(issuer)?.into(),
            issuer: issuer.into(),
            guards: state.client().guards(state.owner().clone()),
            guard_ttl: REFRESH_GUARD_TTL,
            patience: REFRESH_PATIENCE,
            view: Arc::default(),
        })
    }

    /// A refresh that takes longer than this is another replica's to do; [`REFRESH_GUARD_TTL`] if not told. Longer than a request
    /// to the token endpoint can take.
    #[must_use]
    pub fn guard_ttl(mut self, ttl: Duration) -> Self {
        self.guard_ttl = ttl;
        self
    }

    /// How long to wait for others' refreshes; [`REFRESH_PATIENCE`] if not told. Longer than the guard lives, or the death of its
    /// holder makes refreshes fail.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    fn view(&self) -> MutexGuard<'_, View> {
        // A panic elsewhere leaves it whole: every change is one assignment.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self) -> Result<(Option<StoredCredentials>, u64), AuthError> {
        let opened = self.records.retrieve(&self.place, CREDENTIALS).await;
        let Some(opened) = opened.map_err(failed)? else {
            return Ok((None, 0));
        };
        Ok((Some(decode(&opened.plain)?), opened.info.revision))
    }

    async fn write(&self, credentials: &StoredCredentials, over: Over) -> Result<(), AuthError> {
        if let Some(other) = credentials
            .issuer
            .as_deref()
            .filter(|it| **it != *self.issuer)
        {
            let message = format!(
                "credentials of {other} are no credentials of {}",
                self.issuer
            );
            return Err(AuthError::CredentialStoreError(message));
        }
        let plain = encode(credentials)?;
        let until = Instant::now() + self.guard_ttl;
        let (mut base, mut doubtful) = match over {
            Over::Read(revision) => (revision, true),
            Over::Any => (self.read().await?.1, false),
        };
        loop {
            let stored = self
                .records
                .store(&self.place, CREDENTIALS, &plain, Ttl::Never, Some(base))
                .await;
            let Err(error) = stored else {
                return Ok(());
            };
            match error.kind() {
                ErrorKind::Ambiguous | ErrorKind::Unavailable | ErrorKind::Overloaded
                    if Instant::now() < until =>
                {
                    doubtful |= error.kind() == ErrorKind::Ambiguous;
                    sleep(SAVE_PAUSE).await;
                }
                // A try before this one was carried out after all.
                ErrorKind::Conflict { .. } if doubtful && self.holds(&plain).await? => {
                    return Ok(());
                }
                ErrorKind::Conflict { revision, .. } if !doubtful && Instant::now() < until => {
                    base = revision;
                }
                ErrorKind::Conflict { .. } => {
                    let message =
                        "newer credentials were stored meanwhile: nothing was overwritten";
                    return Err(AuthError::CredentialStoreError(message.to_owned()));
                }
                _ => return Err(failed(error)),
            }
        }
    }

    /// Whether these very credentials are the stored ones. An access token is issued once.
    async fn holds(&self, plain: &[u8]) -> Result<bool, AuthError> {
        let opened = self.records.retrieve(&self.place, CREDENTIALS).await;
        Ok(opened
            .map_err(failed)?
            .is_some_and(|opened| *opened.plain == plain))
    }
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let (credentials, revision) = self.read().await?;
        let mut view = self.view();
        match &mut view.held {
            Some(held) => held.base = revision,
            None => view.seen = Some(revision),
        }
        Ok(credentials)
    }

    /// Under a guard, only over what was loaded under it; else, after a login, over whatever is there. A cluster that cannot answer
    /// is asked again for as long as a guard lives: what is to be saved cannot be had again.
    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let base = self.view().held.as_ref().map(|held| held.base);
        self.write(&credentials, base.map_or(Over::Any, Over::Read))
            .await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let cleared = self.records.delete(&self.place, CREDENTIALS).await;
        cleared.map(drop).map_err(failed)
    }

    /// Drops the tokens, so that no other replica presents what the issuer has refused: they hear that a login is needed.
    async fn on_refresh_token_rejected(
        &self,
        credentials: &StoredCredentials,
    ) -> Result<(), AuthError> {
        let Some(base) = self.view().held.as_ref().map(|held| held.base) else {
            return Ok(());
        };
        let StoredCredentials {
            client_id,
            granted_scopes,
            issuer,
            ..
        } = credentials.clone();
        let bare = StoredCredentials::new(client_id, None, granted_scopes, None);
        self.write(&bare.with_issuer(issuer), Over::Read(base))
            .await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        // Of before the wait: whatever is read during it was not what the manager decided by.
        let seen = self.view().seen;
        let key = format!("{}/{REFRESH_GUARD}", self.place);
        let acquired = self.guards.acquire(&key, self.guard_ttl, self.patience);
        let guard = acquired.await.map_err(failed)?;
        let (_, base) = self.read().await?;
        if seen.is_some_and(|seen| seen != base) {
            self.view().seen = Some(base);
            // If it cannot be released it lapses: only the next refresh waits for it.
            if let Err(error) = guard.release().await {
                tracing::debug!(%error, "a refresh guard that was not needed lapses by itself");
            }
            return Err(AuthError::TokenRefreshFailed(REPLACED.to_owned()));
        }
        self.view().held = Some(Held {
            fence: guard.fence(),
            base,
        });
        Ok(Some(CredentialRefreshGuard::new(Refresh {
            guard,
            view: Arc::clone(&self.view),
        })))
    }
}

/// A refresh under way. Its end lets the guard go.
struct Refresh {
    guard: Guard,
    view: Arc<Mutex<View>>,
}

impl Drop for Refresh {
    fn drop(&mut self) {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let fence = self.guard.fence();
        // Not another's, which came when this one had lapsed.
        if view.held.as_ref().is_some_and(|held| held.fence == fence) {
            view.held = None;
        }
    }
}

/// Whether a refresh was not needed, because another replica had replaced the credentials since this one read them. Ask for the
/// token again: it is there.
#[must_use]
pub fn was_replaced(error: &AuthError) -> bool {
    matches!(error, AuthError::TokenRefreshFailed(message) if message == REPLACED)
}

fn encode(credentials: &StoredCredentials) -> Result<Zeroizing<Vec<u8>>, AuthError> {
    match serde_json::to_vec(credentials) {
        Ok(json) => Ok(Zeroizing::new(json)),
        Err(_) => Err(AuthError::CredentialStoreError(
            "the credentials have no JSON form".to_owned(),
        )),
    }
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(plain: &[u8]) -> Result<T, AuthError> {
    // The parser's error might quote the secret that it is about.
    exact::parse(plain).map_err(|_| {
        let message = "what is stored is authentic, but not of the form that this version reads";
        AuthError::CredentialStoreError(message.to_owned())
    })
}

/// Never a reason to log in again: the credentials may be there.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err is given")]
pub(super) fn failed(error: Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}
