//! Replicas on one store in memory behind the balancer, and clients of them.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::Router;
use helve_client::{Client, KeyOptions, Keys, MemoryBuilder, Owner};
use helve_mcp::{
    balancer,
    serve::{Access, EndOnDrop, Shutdown, Versions, router, serve},
    state::{
        Callers, REVISION, Settings,
        gate::{Destructive, Gate, Visible},
        server,
    },
};
use helve_request_state::state_codec::{FixedKeys, HardenedCodec, OperatorKey};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
        FormElicitationCapability, Implementation, JsonObject, ProtocolVersion,
    },
    service::{RequestContext, RunningService},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// Everything may be changed, once the user says so.
pub(crate) const ASKS: Gate = Gate {
    tools: Visible::Deletes,
    destructive: Destructive::Confirmed,
};
/// Everything may be changed.
pub(crate) const ASSUMES: Gate = Gate {
    tools: Visible::Deletes,
    destructive: Destructive::Assumed,
};
/// Nothing may be changed.
pub(crate) const READS: Gate = Gate {
    tools: Visible::Reads,
    destructive: Destructive::Absent,
};

pub(crate) fn memory() -> Client {
    MemoryBuilder::new().build().unwrap()
}

/// Settings of replicas that have no key in common but this one.
pub(crate) fn settings(gate: Gate, key: &[u8; 32]) -> Settings {
    let key = OperatorKey::new(*key).unwrap();
    let codec = HardenedCodec::new(Arc::new(FixedKeys::new(&key)));
    Settings {
        gate,
        codec: Some(Arc::new(codec)),
        callers: Callers::One(Owner::shared()),
        default_ttl: None,
        idle_ttl: None,
        versions: Versions::Modern,
    }
}

pub(crate) struct House {
    pub(crate) replicas: Vec<SocketAddr>,
    pub(crate) balancer: SocketAddr,
    pub(crate) client: Client,
    _shutdown: EndOnDrop,
}

impl House {
    /// Two replicas with this gate.
    pub(crate) async fn open(gate: Gate) -> Self {
        let client = memory();
        let replica = |shutdown: &Shutdown| {
            let server = server(&client, settings(gate, &[7; 32]));
            router(server, &Access::default(), shutdown)
        };
        Self::of(&client, replica).await
    }

    /// Two replicas of this router.
    pub(crate) async fn of(client: &Client, replica: impl Fn(&Shutdown) -> Router) -> Self {
        let shutdown = Shutdown::new();
        let mut replicas = Vec::new();
        for _ in 0..2 {
            let (listener, address) = loopback().await;
            tokio::spawn(serve(listener, replica(&shutdown), shutdown.clone()));
            replicas.push(address);
        }
        let (listener, balancer) = loopback().await;
        let names = replicas.iter().map(ToString::to_string).collect();
        tokio::spawn(balancer::serve(listener, names, shutdown.clone()));
        Self {
            replicas,
            balancer,
            client: client.clone(),
            _shutdown: shutdown.end_on_drop(),
        }
    }

    /// The store, without the server.
    pub(crate) fn keys(&self) -> Keys {
        self.client.keys(KeyOptions::shared())
    }

    /// A client through the balancer, whose user answers so.
    pub(crate) async fn caller(&self, user: User) -> Caller {
        Caller::connect(self.balancer, user).await
    }
}

pub(crate) async fn loopback() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server that can be stopped.
pub(crate) struct Running {
    task: JoinHandle<std::io::Result<()>>,
    shutdown: Shutdown,
}

impl Running {
    pub(crate) fn start(listener: TcpListener, router: impl FnOnce(&Shutdown) -> Router) -> Self {
        let shutdown = Shutdown::new();
        let router = router(&shutdown);
        Self {
            task: tokio::spawn(serve(listener, router, shutdown.clone())),
            shutdown,
        }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.begin();
        self.task.await.unwrap().unwrap();
    }
}

/// What the user does with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The client cannot ask.
    Absent,
    Confirms,
    Declines,
    /// Accepts the form without ticking it.
    Hesitates,
}

/// The client's side: it shows the user what the server asks.
#[derive(Clone)]
pub(crate) struct Window {
    user: User,
    questions: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for Window {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.user != User::Absent {
            let forms = FormElicitationCapability::new();
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(forms));
        }
        ClientConfig::new(capabilities, Implementation::new("window", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("the server asks by forms alone");
        };
        self.questions.lock().unwrap().push(message);
        Ok(match self.user {
            User::Confirms => {
                ElicitResult::new(ElicitationAction::Accept).with_content(json!({"confirm": true}))
            }
            User::Hesitates => {
                ElicitResult::new(ElicitationAction::Accept).with_content(json!({"confirm": false}))
            }
            User::Declines | User::Absent => ElicitResult::new(ElicitationAction::Decline),
        })
    }
}

/// A tool's error, as a program sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: String,
    pub(crate) text: String,
    pub(crate) revision: Option<u64>,
}

pub(crate) struct Caller {
    pub(crate) service: RunningService<RoleClient, Window>,
    window: Window,
}

impl Caller {
    pub(crate) async fn connect(address: SocketAddr, user: User) -> Self {
        Self::connect_as(address, user, None).await
    }

    pub(crate) async fn connect_as(address: SocketAddr, user: User, token: Option<&str>) -> Self {
        // No pool: each request is a connection of its own, and so another replica.
        let http = reqwest::Client::builder()
            .pool_max_idle_per_host(0)
            .no_proxy()
            .build()
            .unwrap();
        let mut config =
            StreamableHttpClientTransportConfig::with_uri(format!("http://{address}/mcp"));
        config.auth_header = token.map(str::to_owned);
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let window = Window {
            user,
            questions: Arc::default(),
        };
        let discover = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        let service = window
            .clone()
            .serve_with_lifecycle(transport, discover)
            .await
            .unwrap();
        Self { service, window }
    }

    /// What the user was asked since the last time.
    pub(crate) fn questions(&self) -> Vec<String> {
        std::mem::take(&mut *self.window.questions.lock().unwrap())
    }

    pub(crate) async fn call(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> Result<CallToolResult, ServiceError> {
        let params = CallToolRequestParams::new(tool).with_arguments(object(arguments));
        self.service.call_tool(params).await
    }

    /// The answer of a call that succeeds.
    pub(crate) async fn done<T: DeserializeOwned>(
        &self,
        tool: &'static str,
        arguments: Value,
    ) -> T {
        let result = self.call(tool, arguments).await.unwrap();
        assert_ne!(result.is_error, Some(true), "{tool}: {result:?}");
        result.into_typed().unwrap()
    }

    /// The error of a call that its tool refuses.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> Refused {
        let result = self.call(tool, arguments).await.unwrap();
        assert_eq!(result.is_error, Some(true), "{tool}: {result:?}");
        let text = result.content.iter().filter_map(|block| block.as_text());
        let meta = result.meta.as_ref().unwrap();
        Refused {
            text: text.map(|text| text.text.clone()).collect(),
            reason: meta.0["helve.v1/reason"].as_str().unwrap().to_owned(),
            revision: meta.0.get(REVISION).and_then(Value::as_u64),
        }
    }

    /// The code of a call that the protocol refuses.
    pub(crate) async fn code(&self, tool: &'static str, arguments: Value) -> i32 {
        match self.call(tool, arguments).await.unwrap_err() {
            ServiceError::McpError(error) => error.code.0,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}
