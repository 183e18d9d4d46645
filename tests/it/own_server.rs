//! The rmcp server of docs/mcp.md runs, and serves only callers with a token.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use helve_client::{Client, HandleOptions, MemoryBuilder};
use helve_mcp::{
    Callers,
    bearer::{Guard, Verifier},
    legacy::{LegacySessions, router},
    serve::{Access, EndOnDrop, Shutdown, serve},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use self::example::your_server;

mod example {
    //! The page's own block of code.

    include!(concat!(env!("OUT_DIR"), "/your_server.rs"));

    /// As the page's first comment says.
    pub(super) fn your_server(baskets: Handles<Vec<String>>) -> impl ServerHandler + Clone {
        YourServer { baskets }
    }
}

/// What tokens are signed with, for which audience, and two of them: alice's and bob's, until the
/// year 2100.
const SECRET: &str = "ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM=";
const AUDIENCE: &str = "http://helve.test/mcp";
const ALICE: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImF1ZCI6Imh0dHA6Ly9oZWx2ZS50ZXN0L21jcCIsImV4cCI6NDEwMjQ0NDgwMH0.TnVbX_VkAIVrb_O9K-CvFnKutbxtJoNQIqiVT44d_B0";
const BOB: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJib2IiLCJhdWQiOiJodHRwOi8vaGVsdmUudGVzdC9tY3AiLCJleHAiOjQxMDI0NDQ4MDB9.bE2hWUi1hYcQs0kUCqRTx2wI_RvYa3SOmV_3ny-qbeQ";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The page's server on loopback.
struct Served {
    address: SocketAddr,
    _end: EndOnDrop,
}

fn guard() -> Result<Guard> {
    // Its file is for its owner alone.
    let secret = tempfile::NamedTempFile::new()?;
    std::fs::write(secret.path(), SECRET)?;
    let verifier = Verifier::of_secret(secret.path(), AUDIENCE, None)?;
    Ok(Guard::new(verifier, Vec::new()))
}

impl Served {
    async fn start(client: &Client, guard: Option<Guard>, callers: Callers) -> Result<Self> {
        let options = HandleOptions::shared("basket");
        let baskets = client.handles(options.id_prefix("bsk").idle_ttl(DAY));
        let access = Access {
            guard: guard.map(Arc::new),
            ..Access::default()
        };
        let shutdown = Shutdown::new();
        let sessions = LegacySessions::new(client, DAY, callers);
        let server = your_server(baskets);
        let router = router(server, &access, Some(sessions), &shutdown);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(serve(listener, router, shutdown.clone()));
        Ok(Self {
            address,
            _end: shutdown.end_on_drop(),
        })
    }

    /// Sends a message, in a version of HTTP without chunks. Returns status, session and answer.
    async fn send(
        &self,
        token: Option<&str>,
        session: Option<&str>,
        message: &Value,
    ) -> Result<(u16, Option<String>, Value)> {
        let body = message.to_string();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let session = session
            .map(|id| format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"));
        let request = format!(
            "POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{}{}Content-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            token.unwrap_or_default(),
            session.unwrap_or_default(),
            body.len()
        );
        let mut connected = TcpStream::connect(self.address).await?;
        connected.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        connected.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let id = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        let body = serde_json::from_str(body).unwrap_or(json!(body));
        Ok((status, id.map(str::to_owned), body))
    }

    /// Begins a session, and returns its id.
    async fn begin(&self, token: Option<&str>) -> Result<String> {
        let (status, session, answer) = self.send(token, None, &initialize()).await?;
        ensure!(status == 200, "{status}: {answer}");
        let session = session.context("a session")?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let (status, _, answer) = self.send(token, Some(&session), &initialized).await?;
        ensure!(status == 202, "{status}: {answer}");
        Ok(session)
    }

    /// What a tool says to a caller in a session.
    async fn said(
        &self,
        token: &str,
        session: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<String> {
        let message = call(tool, &arguments);
        let (status, _, answer) = self.send(Some(token), Some(session), &message).await?;
        ensure!(status == 200, "{status}: {answer}");
        let said = &answer["result"]["content"][0]["text"];
        Ok(said
            .as_str()
            .with_context(|| answer.to_string())?
            .to_owned())
    }
}

fn initialize() -> Value {
    let client = json!({"name": "reader", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

fn call(tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn documented_server_refuses_callers_without_token_and_serves_others() -> Result<()> {
    let client = MemoryBuilder::new().build()?;
    let served = Served::start(&client, Some(guard()?), Callers::Authenticated).await?;
    for message in [initialize(), call("create_basket", &json!({}))] {
        for token in [None, Some("made-up")] {
            let (status, session, answer) = served.send(token, None, &message).await?;
            assert_eq!((status, session), (401, None), "{answer}");
        }
    }
    let alice = served.begin(Some(ALICE)).await?;
    let id = served
        .said(ALICE, &alice, "create_basket", json!({}))
        .await?;
    assert!(id.starts_with("bsk-"), "{id}");
    let view = json!({"basket_id": id});
    let said = served.said(ALICE, &alice, "view_basket", view.clone());
    let said = said.await?;
    assert!(said.starts_with("Live"), "{said}");
    // In alice's session, and on her basket, there is nothing for others.
    let message = call("view_basket", &view);
    for token in [None, Some(BOB)] {
        let (status, _, answer) = served.send(token, Some(&alice), &message).await?;
        assert_eq!(status, if token.is_none() { 401 } else { 404 }, "{answer}");
    }
    let bob = served.begin(Some(BOB)).await?;
    let said = served.said(BOB, &bob, "view_basket", view).await?;
    assert_eq!(said, "Unknown");
    Ok(())
}

#[tokio::test]
async fn documented_server_without_its_guard_refuses_every_call() -> Result<()> {
    let client = MemoryBuilder::new().build()?;
    let all = Callers::One(helve_client::Owner::shared());
    let served = Served::start(&client, None, all).await?;
    let session = served.begin(None).await?;
    let message = call("create_basket", &json!({}));
    let (_, _, answer) = served.send(None, Some(&session), &message).await?;
    assert_eq!(
        answer["error"]["message"],
        json!("nothing says who calls"),
        "{answer}"
    );
    Ok(())
}
