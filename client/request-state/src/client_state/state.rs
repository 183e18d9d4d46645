//! The client state store on a client, whatever its host.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use helve_client::{Client, Error, Owner, StateTool, Transaction, Ttl, extend::encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use zeroize::Zeroizing;

use super::{
    discover::{CacheScope, Discovered, hints},
    records::{SealedRecords, decode, key, place},
    seal::{Opened, Seal},
    store::{ClientStateStore, ServerMetadata},
    token::TokenInfo,
};

/// The tenant that values are sealed for, if the options name no other.
pub const TENANT: &str = "default";
/// How long unused state is kept, if the options say nothing: 90 days.
pub const IDLE_TTL: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Where what one client alone has is kept, and where what all clients of a server share.
const CLIENTS: &str = "client-state/clients";
const SERVERS: &str = "client-state/servers";

const SESSION_ID: &str = "session-id";
const SERVER_METADATA: &str = "server-metadata";
const DISCOVER: &str = "discover";
const ACCESS_TOKEN: &str = "access-token";

/// Whose state, towards which server.
#[derive(Debug, Clone)]
pub struct ClientStateOptions {
    client: String,
    server: String,
    tenant: String,
    owner: Owner,
    idle_ttl: Duration,
}

impl ClientStateOptions {
    /// The state of the client of this name towards the server of this URL. Processes that give the same names are one client.
    /// With the issuer's they must fit a key: 1,024 bytes.
    pub fn new(client: impl Into<String>, server: impl Into<String>) -> Self {
        Self {
            client: client.into(),
            server: server.into(),
            tenant: TENANT.to_owned(),
            owner: Owner::shared(),
            idle_ttl: IDLE_TTL,
        }
    }

    /// The tenant that values are sealed for, [`TENANT`] if not told. What was sealed for another one does not open.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// The end user whose client this is: at most 256 bytes. Every owner has state of their own. Not told: the client serves no one in
    /// particular, and its state is [shared](Owner::shared).
    #[must_use]
    pub fn owner(mut self, owner: impl Into<Owner>) -> Self {
        self.owner = owner.into();
        self
    }

    /// State that is not read or written for this long expires; [`IDLE_TTL`] if not told.
    #[must_use]
    pub fn idle_ttl(mut self, ttl: Duration) -> Self {
        self.idle_ttl = ttl;
        self
    }
}

/// A [`ClientStateStore`] on a cluster or in memory. Clones share [`close`](ClientStateStore::close).
#[derive(Debug, Clone)]
pub struct ClientState {
    client: Client,
    records: SealedRecords,
    owner: Owner,
    own: String,
    shared: String,
}

impl ClientState {
    /// The state that this client reaches, sealed with these keys.
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if a name is empty.
    pub fn new(
        client: &Client,
        options: ClientStateOptions,
        seal: impl Into<Arc<Seal>>,
    ) -> Result<Self, Error> {
        let ClientStateOptions {
            client: name,
            server,
            tenant,
            owner,
            idle_ttl,
        } = options;
        Ok(Self {
            client: client.clone(),
            records: SealedRecords::new(client, &tenant, &owner, idle_ttl, seal.into()),
            owner,
            own: place(CLIENTS, &[("client", &name), ("server", &server)])?,
            shared: place(SERVERS, &[("server", &server)])?,
        })
    }

    /// The sealed records that the state is kept in, for adapters that keep more.
    #[must_use]
    pub fn records(&self) -> &SealedRecords {
        &self.records
    }

    /// The client that the state is kept through.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whose state it is.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The place of what this client has towards this server.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.own
    }

    /// The place of what this client has from this issuer, towards this server.
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if the issuer is empty.
    pub fn issuer_place(&self, issuer: &str) -> Result<String, Error> {
        place(&key(&self.own, "issuers"), &[("issuer", issuer)])
    }

    async fn set(&self, place: &str, field: &str, plain: &[u8], ttl: Ttl) -> Result<(), Error> {
        let stored = self.records.store(place, field, plain, ttl, None);
        stored.await.map(drop)
    }

    async fn get<T: DeserializeOwned>(&self, place: &str, field: &str) -> Result<Option<T>, Error> {
        let opened = self.records.retrieve(place, field).await?;
        opened.map(|opened| decode(&opened.plain)).transpose()
    }

    async fn fresh(&self, place: &str, scope: CacheScope) -> Result<Option<Discovered>, Error> {
        let Some(opened) = self.records.retrieve(place, DISCOVER).await? else {
            return Ok(None);
        };
        Ok(Some(Discovered {
            result: decode(&opened.plain)?,
            scope,
            fresh_until_ms: opened.info.expires_at_ms,
        }))
    }

    fn forget_discover(&self) -> Transaction {
        let (keys, transaction) = (self.records.keys(), self.client.transaction());
        transaction.delete_key(keys, &key(&self.own, DISCOVER))
    }
}

#[async_trait]
impl ClientStateStore for ClientState {
    async fn set_session_id(&self, session_id: &str) -> Result<(), Error> {
        let plain = Zeroizing::new(encode(session_id)?.to_vec());
        self.set(&self.own, SESSION_ID, &plain, Ttl::Never).await
    }

    async fn get_session_id(&self) -> Result<Option<String>, Error> {
        self.get(&self.own, SESSION_ID).await
    }

    async fn clear_session_id(&self) -> Result<(), Error> {
        self.records.delete(&self.own, SESSION_ID).await.map(drop)
    }

    async fn set_access_token(&self, issuer: &str, token: &TokenInfo) -> Result<(), Error> {
        let place = self.issuer_place(issuer)?;
        self.set(&place, ACCESS_TOKEN, &token.encode()?, token.ttl())
            .await
    }

    async fn get_access_token(&self, issuer: &str) -> Result<Option<TokenInfo>, Error> {
        let place = self.issuer_place(issuer)?;
        let opened = self.records.retrieve(&place, ACCESS_TOKEN).await?;
        let token = |opened: Opened| TokenInfo::decode(&opened.plain, opened.info.expires_at_ms);
        opened.map(token).transpose()
    }

    async fn clear_access_token(&self, issuer: &str) -> Result<(), Error> {
        let place = self.issuer_place(issuer)?;
        self.records.delete(&place, ACCESS_TOKEN).await.map(drop)
    }

    async fn set_server_metadata(&self, metadata: &ServerMetadata) -> Result<(), Error> {
        let plain = encode(metadata)?;
        self.set(&self.own, SERVER_METADATA, &plain, Ttl::Never)
            .await
    }

    async fn get_server_metadata(&self) -> Result<Option<ServerMetadata>, Error> {
        self.get(&self.own, SERVER_METADATA).await
    }

    async fn clear_server_metadata(&self) -> Result<(), Error> {
        let deleted = self.records.delete(&self.own, SERVER_METADATA);
        deleted.await.map(drop)
    }

    async fn set_discover(&self, result: &Value) -> Result<(), Error> {
        let (scope, ttl) = hints(result)?;
        if ttl.is_zero() {
            return self.clear_discover().await;
        }
        let plain = encode(result)?;
        match scope {
            CacheScope::Private => self.set(&self.own, DISCOVER, &plain, Ttl::After(ttl)).await,
            CacheScope::Public => {
                let sealed = self.records.sealed(&self.shared, DISCOVER, &plain)?;
                let key = key(&self.shared, DISCOVER);
                // One's own, older and narrower, would hide it.
                let both = self.forget_discover().store(
                    self.records.keys(),
                    &key,
                    &sealed,
                    Ttl::After(ttl),
                );
                both.commit().await.map(drop)
            }
        }
    }

    async fn get_discover(&self) -> Result<Option<Discovered>, Error> {
        match self.fresh(&self.own, CacheScope::Private).await? {
            Some(own) => Ok(Some(own)),
            None => self.fresh(&self.shared, CacheScope::Public).await,
        }
    }

    async fn clear_discover(&self) -> Result<(), Error> {
        let keys = self.records.keys();
        let both = self.forget_discover();
        let both = both.delete_key(keys, &key(&self.shared, DISCOVER));
        both.commit().await.map(drop)
    }

    fn close(&self) {
        self.records.keys().close();
    }
}
