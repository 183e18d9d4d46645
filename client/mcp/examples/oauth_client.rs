//! An MCP client that logs in once, and goes on in another process after this one is killed.
//!
//! ```text
//! HELVE_ENDPOINTS=a:7400,b:7400 HELVE_KEY_FILE=key MCP_SERVER=http://127.0.0.1:8000/mcp cargo run --example oauth_client
//! ```
//!
//! It obeys lines on standard input, and answers each with a line of JSON:
//! - `login`: where the user must go; then `callback URL`: where the user came back to;
//! - `call TOOL`: what the tool says.

use std::{env, error::Error, io, path::Path, thread, time::Duration};

use helve_client::ClusterBuilder;
use helve_mcp::storage::{Credentials, REFRESH_GUARD_TTL, ReplicatedAuthClient, connect, resume};
use helve_request_state::{
    client_state::{ClientState, ClientStateOptions, Seal},
    state_codec::OperatorKey,
};
use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, ClientConfig, ProtocolVersion},
    service::RunningService,
    transport::{
        AuthorizationManager, StreamableHttpClientTransport,
        auth::{AuthorizationCallback, OAuthClientConfig},
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// As the authorization server knows this client.
const CLIENT_ID: &str = "helve-agent";
const REDIRECT_URI: &str = "http://127.0.0.1/callback";

struct Agent {
    server: String,
    state: ClientState,
    guard_ttl: Duration,
    login: Option<AuthorizationManager>,
    running: Option<RunningService<RoleClient, ClientConfig>>,
}

impl Agent {
    fn from_env() -> Outcome<Self> {
        let endpoints = variable("HELVE_ENDPOINTS")?;
        let client = ClusterBuilder::new(endpoints.split(',')).build()?;
        let key = OperatorKey::read(Path::new(&variable("HELVE_KEY_FILE")?))?;
        let server = variable("MCP_SERVER")?;
        let options = ClientStateOptions::new(CLIENT_ID, &server);
        let guard_ttl = match env::var("GUARD_TTL_MS") {
            Ok(ms) => Duration::from_millis(ms.parse()?),
            Err(_) => REFRESH_GUARD_TTL,
        };
        Ok(Self {
            state: ClientState::new(&client, options, Seal::new(&key))?,
            server,
            guard_ttl,
            login: None,
            running: None,
        })
    }

    /// A manager with what any process of this client has, and whether that is enough.
    async fn manager(&self) -> Outcome<(AuthorizationManager, bool)> {
        let mut manager = AuthorizationManager::new(self.server.as_str()).await?;
        let guarded = |credentials: Credentials| credentials.guard_ttl(self.guard_ttl);
        let resumed = resume(&mut manager, &self.state, guarded).await?;
        Ok((manager, resumed))
    }

    async fn begin_login(&mut self) -> Outcome<Value> {
        let (mut manager, _) = self.manager().await?;
        manager.configure_client(OAuthClientConfig::new(CLIENT_ID, REDIRECT_URI))?;
        let url = manager.get_authorization_url(&[]).await?;
        self.login = Some(manager);
        Ok(json!({"authorize": url}))
    }

    async fn end_login(&mut self, url: &str) -> Outcome<Value> {
        // The login may have begun in another process.
        let manager = match self.login.take() {
            Some(manager) => manager,
            None => {
                let (mut manager, _) = self.manager().await?;
                manager.configure_client(OAuthClientConfig::new(CLIENT_ID, REDIRECT_URI))?;
                manager
            }
        };
        let AuthorizationCallback {
            code,
            csrf_token,
            issuer,
            ..
        } = AuthorizationCallback::from_redirect_url(url)?;
        manager
            .exchange_code_for_token_with_issuer(&code, &csrf_token, issuer.as_deref())
            .await?;
        Ok(json!({"logged_in": true}))
    }

    async fn call(&mut self, tool: &str) -> Outcome<Value> {
        if self.running.is_none() {
            let (manager, resumed) = self.manager().await?;
            if !resumed {
                return Ok(json!({"login_required": true}));
            }
            let http = ReplicatedAuthClient::new(reqwest::Client::new(), manager);
            let config = StreamableHttpClientTransportConfig::with_uri(self.server.as_str());
            let transport = StreamableHttpClientTransport::with_client(http, config);
            let versions = vec![ProtocolVersion::LATEST];
            let running = connect(ClientConfig::default(), transport, &self.state, versions);
            self.running = Some(running.await?);
        }
        let running = self.running.as_ref().ok_or("not connected")?;
        let result = running
            .call_tool(CallToolRequestParams::new(tool.to_owned()))
            .await?;
        Ok(json!({"called": result}))
    }

    async fn obey(&mut self, line: &str) -> Outcome<Value> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("login", "") => self.begin_login().await,
            ("callback", url) => self.end_login(url).await,
            ("call", tool) => self.call(tool).await,
            _ => Err("say `login`, `callback URL` or `call TOOL`".into()),
        }
    }
}

fn variable(name: &str) -> Outcome<String> {
    env::var(name).map_err(|_| format!("set {name}").into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let mut agent = Agent::from_env()?;
    println!("{}", json!({"ready": true}));
    let (send, mut lines) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lines() {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let answer = agent.obey(&line?).await;
        let answer = answer.unwrap_or_else(|error| json!({"error": error.to_string()}));
        println!("{answer}");
    }
    Ok(())
}
