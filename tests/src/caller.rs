//! One node's gRPC services as a caller sees them: no retries, no other node, a deadline on every call.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use helve_client::{Bearer, NodeConnection, Tls};
use helve_proto::{
    ERROR_DOMAIN, Reason,
    v1::{
        BatchRetrieveReply, BatchRetrieveRequest, BatchStoreReply, BatchStoreRequest, CallIdentity,
        ClaimReply, ClaimRequest, CountReply, CountRequest, CreateTokenReply, CreateTokenRequest,
        DeleteKeyReply, DeleteKeyRequest, DeleteReply, DeleteRequest, GetReply, GetRequest,
        Lifetime, ListReply, ListRequest, ListTenantsReply, ListTenantsRequest, ListTokensReply,
        ListTokensRequest, MintReply, MintRequest, OpenSessionReply, OpenSessionRequest, PutReply,
        PutRequest, RenewReply, RenewRequest, RetrieveReply, RetrieveRequest, RevokeTokenReply,
        RevokeTokenRequest, SetTenantReply, SetTenantRequest, StateDigestReply, StateDigestRequest,
        StatusReply, StatusRequest, StoreReply, StoreRequest, TakeReply, TakeRequest,
        TakeSnapshotReply, TakeSnapshotRequest, TransactReply, TransactRequest,
        TransferLeaderReply, TransferLeaderRequest, access_service_client::AccessServiceClient,
        call_identity::Identity, call_service_client::CallServiceClient,
        cluster_service_client::ClusterServiceClient, handle_service_client::HandleServiceClient,
        lifetime::Absolute, state_service_client::StateServiceClient,
        transact_service_client::TransactServiceClient,
    },
};
use tokio::time::timeout;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;
use uuid::Uuid;

/// The deadline of a call: the node's default. A node that cannot answer says so by then.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Calls one node.
#[derive(Debug, Clone)]
pub struct Caller {
    address: Arc<str>,
    channel: Channel,
    bearer: Bearer,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident: $client:ident.$method:ident($request:ty) -> $reply:ty;)*) => {
        impl Caller {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// What the node, or the connection, says.
                pub async fn $name(&self, request: $request) -> Result<$reply, Status> {
                    let mut client = $client::new(self.line());
                    Ok(answered(client.$method(with_deadline(request))).await?.into_inner())
                }
            )*
        }
    };
}

calls! {
    /// Mints a handle.
    mint: HandleServiceClient.mint(MintRequest) -> MintReply;
    /// Puts a value under an id.
    put: HandleServiceClient.put(PutRequest) -> PutReply;
    /// Gets a handle's value.
    get: HandleServiceClient.get(GetRequest) -> GetReply;
    /// Takes a handle's value.
    take: HandleServiceClient.take(TakeRequest) -> TakeReply;
    /// Renews a handle.
    renew: HandleServiceClient.renew(RenewRequest) -> RenewReply;
    /// Deletes a handle.
    delete: HandleServiceClient.delete(DeleteRequest) -> DeleteReply;
    /// Begins, finishes or abandons a claim.
    claim: HandleServiceClient.claim(ClaimRequest) -> ClaimReply;
    /// Counts live handles.
    count: HandleServiceClient.count(CountRequest) -> CountReply;
    /// Stores a value under a key.
    store: StateServiceClient.store(StoreRequest) -> StoreReply;
    /// Retrieves a key's value.
    retrieve: StateServiceClient.retrieve(RetrieveRequest) -> RetrieveReply;
    /// Deletes a key.
    delete_key: StateServiceClient.delete(DeleteKeyRequest) -> DeleteKeyReply;
    /// Stores several keys.
    batch_store: StateServiceClient.batch_store(BatchStoreRequest) -> BatchStoreReply;
    /// Retrieves several keys.
    batch_retrieve: StateServiceClient.batch_retrieve(BatchRetrieveRequest) -> BatchRetrieveReply;
    /// Commits several operations as one.
    transact: TransactServiceClient.transact(TransactRequest) -> TransactReply;
    /// Opens a replay session.
    open_session: CallServiceClient.open_session(OpenSessionRequest) -> OpenSessionReply;
    /// Hands leadership on.
    transfer_leader: ClusterServiceClient.transfer_leader(TransferLeaderRequest) -> TransferLeaderReply;
    /// Hashes all rows of the node.
    state_digest: ClusterServiceClient.state_digest(StateDigestRequest) -> StateDigestReply;
    /// Lets a token in.
    create_token: AccessServiceClient.create_token(CreateTokenRequest) -> CreateTokenReply;
    /// Shuts a token out.
    revoke_token: AccessServiceClient.revoke_token(RevokeTokenRequest) -> RevokeTokenReply;
    /// Lists the tokens of a tenant.
    list_tokens: AccessServiceClient.list_tokens(ListTokensRequest) -> ListTokensReply;
    /// Makes a tenant, or sets its quotas.
    set_tenant: AccessServiceClient.set_tenant(SetTenantRequest) -> SetTenantReply;
    /// Lists tenants.
    list_tenants: AccessServiceClient.list_tenants(ListTenantsRequest) -> ListTenantsReply;
    /// Makes the node take a snapshot.
    take_snapshot: ClusterServiceClient.take_snapshot(TakeSnapshotRequest) -> TakeSnapshotReply;
}

impl Caller {
    /// Connects with the first call.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self::plain(None, address)
    }

    /// Connects with the first call, from this address of the machine.
    #[must_use]
    pub fn calling_from(own: IpAddr, address: SocketAddr) -> Self {
        Self::plain(Some(own), address)
    }

    fn plain(own: Option<IpAddr>, address: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .expect("a socket address makes a URI")
            .local_address(own);
        Self {
            address: address.to_string().into(),
            channel: endpoint.connect_timeout(DEADLINE).connect_lazy(),
            bearer: Bearer::default(),
        }
    }

    /// Connects with the first call, over TLS.
    ///
    /// # Errors
    ///
    /// If the caller's certificate cannot be used.
    pub fn over(address: SocketAddr, tls: &Tls) -> Result<Self, helve_client::Error> {
        let endpoint = Endpoint::from_shared(format!("https://{address}"))
            .expect("a socket address makes a URI");
        let endpoint = tls.secure(endpoint.connect_timeout(DEADLINE))?;
        Ok(Self {
            address: address.to_string().into(),
            channel: endpoint.connect_lazy(),
            bearer: Bearer::default(),
        })
    }

    /// The same, with a token on every call.
    #[must_use]
    pub fn bearing(self, bearer: &Bearer) -> Self {
        Self {
            bearer: bearer.clone(),
            ..self
        }
    }

    /// The connection, with the token on every call, for services that have no method here.
    #[must_use]
    pub fn line(&self) -> NodeConnection {
        NodeConnection::new(
            Arc::clone(&self.address),
            self.channel.clone(),
            &self.bearer,
        )
    }

    /// The bare connection, for services that have no method here.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// What the node says of itself.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub async fn status(&self) -> Result<StatusReply, Status> {
        let mut client = ClusterServiceClient::new(self.line());
        let status = client.status(with_deadline(StatusRequest {}));
        Ok(answered(status).await?.into_inner())
    }

    /// Lists handles: all parts of the stream.
    ///
    /// # Errors
    ///
    /// What the node, or the connection, says.
    pub async fn list(&self, request: ListRequest) -> Result<Vec<ListReply>, Status> {
        let mut client = HandleServiceClient::new(self.line());
        let opened = answered(client.list(with_deadline(request))).await?;
        let mut parts = opened.into_inner();
        let mut all = Vec::new();
        while let Some(part) = answered(parts.message()).await? {
            all.push(part);
        }
        Ok(all)
    }
}

/// The deadline bounds the wait for an answer's beginning alone: a node that is frozen right behind it would never be given up.
async fn answered<A>(call: impl Future<Output = Result<A, Status>>) -> Result<A, Status> {
    let answer = timeout(2 * DEADLINE, call).await;
    answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("the answer did not end")))
}

/// What a node says of a call that it cannot carry out. It says so a moment before the deadline, and on a busy machine this
/// client's own timer would be first: the request must have none. The node's default then is [`DEADLINE`].
///
/// # Errors
///
/// What the node, or the connection, says.
pub async fn word_of_node<A>(
    call: impl Future<Output = Result<Response<A>, Status>>,
) -> Result<A, Status> {
    Ok(answered(call).await?.into_inner())
}

/// The request, to be answered within [`DEADLINE`].
pub fn with_deadline<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

/// Why the node refused; `None` if the error is not one of Helve's.
#[must_use]
pub fn reason(status: &Status) -> Option<Reason> {
    let info = status.get_details_error_info()?;
    if info.domain == ERROR_DOMAIN {
        Reason::parse(&info.reason)
    } else {
        None
    }
}

/// An identity for one mutation and all its retries.
#[must_use]
pub fn new_identity() -> CallIdentity {
    CallIdentity {
        identity: Some(Identity::RequestId(
            Uuid::now_v7().into_bytes().to_vec().into(),
        )),
    }
}

/// A lifetime of so long from the write.
#[must_use]
pub fn lifetime_of(time: Duration) -> Lifetime {
    let time_ms =
        u64::try_from(time.as_millis()).expect("tests live for less than a geological age");
    Lifetime {
        absolute: Some(Absolute::AfterMs(time_ms)),
        idle_ttl_ms: None,
    }
}
