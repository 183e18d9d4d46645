//! Connections that begin with what an earlier process learned.

use helve_client::{Error, ErrorKind};
use helve_request_state::client_state::{ClientState, ClientStateStore};
use rmcp::{
    RoleClient, Service,
    model::{DiscoverResult, ProtocolVersion, RequestMetaObject, ServerPeerInfo},
    service::{
        ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle,
        serve_directly,
    },
    transport::{
        AuthorizationManager, IntoTransport,
        auth::{AuthError, AuthorizationMetadata},
    },
};
use serde_json::Value;

use super::{credentials::Credentials, logins::Logins};

/// Connects to a server of protocol 2026-07-28 by what the state holds of it: a fresh result of
/// `server/discover` saves the request, else its result is kept for the next client. A state that
/// cannot be read or written costs that request, and a line in the log.
///
/// # Errors
/// As rmcp's `serve_client_with_lifecycle`.
pub async fn connect<S, T, E, A>(
    service: S,
    transport: T,
    state: &dyn ClientStateStore,
    preferred_versions: Vec<ProtocolVersion>,
) -> Result<RunningService<RoleClient, S>, ClientInitializeError>
where
    S: Service<RoleClient>,
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let known = known(state).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "what is known of the server cannot be read: it is asked");
        None
    });
    let version = known.as_ref().and_then(|known| {
        let offered = &known.supported_versions;
        preferred_versions
            .iter()
            .find(|it| offered.contains(it))
            .cloned()
    });
    if let (Some(known), Some(version)) = (known, version) {
        let server = ServerPeerInfo::from_discover_result(version, known);
        return Ok(serve_directly(service, transport, Some(server)));
    }
    let info = service.get_info();
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions };
    let running = serve_client_with_lifecycle(service, transport, lifecycle).await?;
    // rmcp keeps no more of the result than the capabilities: the hints must be asked for.
    if let Some(server) = running.peer_info() {
        let meta = RequestMetaObject::with_client_context(
            server.protocol_version.clone(),
            info.client_info,
            info.capabilities,
        );
        match running.discover(meta).await {
            Ok(result) => {
                if let Err(error) = keep(state, &result).await {
                    tracing::warn!(%error, "what is known of the server is not kept");
                }
            }
            Err(error) => tracing::warn!(%error, "the server was not asked for how long"),
        }
    }
    Ok(running)
}

async fn known(state: &dyn ClientStateStore) -> Result<Option<DiscoverResult>, Error> {
    let Some(discovered) = state.get_discover().await? else {
        return Ok(None);
    };
    serde_json::from_value(discovered.result)
        .map(Some)
        .map_err(|_| {
            let message =
                "the result of server/discover that is kept is not one that this version reads";
            Error::new(ErrorKind::Codec, message)
        })
}

async fn keep(state: &dyn ClientStateStore, result: &DiscoverResult) -> Result<(), Error> {
    let result: Value = serde_json::to_value(result).map_err(|_| {
        Error::new(
            ErrorKind::Codec,
            "the result of server/discover has no JSON form",
        )
    })?;
    state.set_discover(&result).await
}

/// Gives a manager the state's credentials and logins, of the issuer that the server names now. True: it has tokens, and no login
/// is needed; false: begin one.
///
/// # Errors
/// Those of rmcp's `resolve_metadata`; [`CredentialStoreError`](AuthError::CredentialStoreError) if the state cannot be read,
/// which is no reason to log in.
pub async fn resume(
    manager: &mut AuthorizationManager,
    state: &ClientState,
    configure: impl FnOnce(Credentials) -> Credentials,
) -> Result<bool, AuthError> {
    let metadata = manager.resolve_metadata().await?.metadata;
    let credentials = Credentials::new(state, issuer(&metadata));
    let credentials = credentials.map_err(super::credentials::failed)?;
    manager.set_metadata(metadata);
    manager.set_credential_store(configure(credentials));
    manager.set_state_store(Logins::new(state));
    manager.initialize_from_store().await
}

/// Who gives the tokens. A server that publishes no metadata has no issuer; then it is where refresh tokens would be sent.
fn issuer(metadata: &AuthorizationMetadata) -> &str {
    metadata
        .issuer
        .as_deref()
        .unwrap_or(&metadata.token_endpoint)
}
