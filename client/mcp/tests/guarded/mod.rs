//! Replicas of a server behind the boundary, on one host in memory, called as HTTP calls them.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::Body;
use helve_client::Client;
use helve_mcp::boundary::{Boundary, Subjects, Unverified};
use helve_request_state::state_codec::{
    FixedKeys, HardenedCodec, OperatorKey, SingleUse, StateCodec,
};
use http::{Request, request::Parts};
use http_body_util::BodyExt;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Extensions,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, InputRequiredResult,
        PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ResourceContents, Role, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Value, json};

/// What handlers put into a state: the client must not see it.
pub(crate) const PLAIN: &str = "the plain state";

/// Asks for one more round, and then says what state it was given.
#[derive(Clone)]
struct Server {
    runs: Arc<AtomicU64>,
}

impl Server {
    fn answer<R: From<InputRequiredResult>>(
        &self,
        state: Option<String>,
        done: impl FnOnce(String) -> R,
    ) -> R {
        self.runs.fetch_add(1, Ordering::Relaxed);
        match state {
            Some(state) => done(state),
            None => InputRequiredResult::from_request_state(PLAIN).into(),
        }
    }
}

impl ServerHandler for Server {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(self.answer(request.request_state, |state| {
            CallToolResult::success(vec![ContentBlock::text(state)]).into()
        }))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(self.answer(request.request_state, |state| {
            GetPromptResult::new(vec![PromptMessage::new_text(Role::User, state)]).into()
        }))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        Ok(self.answer(request.request_state, |state| {
            ReadResourceResult::new(vec![ResourceContents::text(state, uri)]).into()
        }))
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder();
        let capabilities = capabilities.enable_tools().enable_prompts();
        ServerConfig::new(capabilities.enable_resources().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&[ProtocolVersion::V_2026_07_28])
    }
}

/// The test's stand-in for a verified token: a header.
struct ByHeader;

impl Subjects for ByHeader {
    fn subject(&self, extensions: &Extensions) -> Result<Option<String>, Unverified> {
        let parts = extensions.get::<Parts>();
        let header = parts.and_then(|parts| parts.headers.get("x-user"));
        let Some(header) = header else {
            return Ok(None);
        };
        let user = header
            .to_str()
            .map_err(|error| Unverified(error.to_string()))?;
        Ok(Some(user.to_owned()))
    }
}

type Service = StreamableHttpService<Boundary<Server>, NeverSessionManager>;

/// One replica.
pub(crate) struct Replica {
    service: Service,
    runs: Arc<AtomicU64>,
}

/// What a client asks.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) user: Option<&'static str>,
    pub(crate) method: &'static str,
    pub(crate) target: &'static str,
    pub(crate) arguments: Value,
}

impl Ask {
    /// Alice's call of a tool.
    pub(crate) fn tool() -> Self {
        Self {
            user: Some("alice"),
            method: "tools/call",
            target: "delete",
            arguments: json!({"key": "a"}),
        }
    }

    fn params(&self, state: Option<&str>) -> Value {
        let name = if self.method == "resources/read" {
            "uri"
        } else {
            "name"
        };
        let mut params = json!({
            name: self.target,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            },
        });
        if name == "name" {
            params["arguments"] = self.arguments.clone();
        }
        if let Some(state) = state {
            params["requestState"] = json!(state);
        }
        params
    }
}

impl Replica {
    /// With this key and audience; states are used once if there is a client to keep the marks.
    pub(crate) fn new(key: u8, audience: &str, single_use: Option<&Client>) -> Self {
        let key = OperatorKey::new([key; 32]).unwrap();
        let codec = Arc::new(HardenedCodec::new(Arc::new(FixedKeys::new(&key))));
        let codec: Arc<dyn StateCodec> = match single_use {
            Some(client) => Arc::new(SingleUse::new(codec, client)),
            None => codec,
        };
        let runs = Arc::new(AtomicU64::new(0));
        let server = Server {
            runs: Arc::clone(&runs),
        };
        let server = Boundary::new(server, codec, audience).subjects(Arc::new(ByHeader));
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_stateless_protocol_metadata_required(true);
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::new(NeverSessionManager::default()),
            config,
        );
        Self { service, runs }
    }

    /// How often a handler ran.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// The JSON-RPC answer, but for its id.
    pub(crate) async fn ask(&self, ask: &Ask, state: Option<&str>) -> Value {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": ask.method, "params": ask.params(state),
        });
        let mut request = Request::post("http://localhost/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", ask.method)
            .header("mcp-name", ask.target);
        if let Some(user) = ask.user {
            request = request.header("x-user", user);
        }
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = self.service.handle(request).await.into_body();
        let answer = answer.collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        match answer.get("result") {
            Some(result) => result.clone(),
            None => answer["error"].clone(),
        }
    }

    /// The sealed state of a first round.
    pub(crate) async fn sealed(&self, ask: &Ask) -> String {
        let result = self.ask(ask, None).await;
        assert_eq!(result["resultType"], "input_required", "{result}");
        result["requestState"].as_str().unwrap().to_owned()
    }
}
