//! `helve mcp` as a process that serves HTTP, and bare requests to it.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use helve_tests::{
    process::{Process, Start},
    wait::{Look, PATIENCE, until},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{binary, probes::get};

/// A server of the state tool that has not been started yet. With `open_files`, it may open no more than that.
pub(crate) fn server(
    directory: &Path,
    listen: SocketAddr,
    more: &[&str],
    open_files: Option<u32>,
) -> Process {
    let listen_on = listen.to_string();
    let own = ["mcp", "--listen", &listen_on, "--enable-writes"];
    let arguments = own.iter().chain(more).map(Into::into);
    let start = match open_files {
        None => Start {
            binary: binary(),
            arguments: arguments.collect(),
            environment: Vec::new(),
        },
        Some(files) => {
            let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
            let shell = ["-c".into(), limited.into(), binary().into()];
            Start {
                binary: "/bin/sh".into(),
                arguments: shell.into_iter().chain(arguments).collect(),
                environment: Vec::new(),
            }
        }
    };
    Process::new(start, directory.join(format!("{}.log", listen.port())))
}

/// Waits until the server is ready.
pub(crate) async fn ready(address: SocketAddr) -> Result<()> {
    until("the server to be ready", async || {
        match get(address, "/readyz").await {
            Ok((200, _)) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

/// Who calls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Caller<'a> {
    /// What it shows.
    pub(crate) token: Option<&'a str>,
}

impl Caller<'_> {
    /// The head of a POST with a body of this length. The connection ends with the answer.
    pub(crate) fn head(self, method: &str, name: &str, length: usize) -> String {
        let token = self
            .token
            .map(|token| format!("Authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: {method}\r\nMcp-Name: {name}\r\n{token}Content-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        )
    }

    /// A whole request that stores a value under a key.
    pub(crate) fn store(self, key: &str) -> String {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let arguments = json!({"key": key, "value": 1});
        let params = json!({"name": "store", "arguments": arguments, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let body = call.to_string();
        format!("{}{body}", self.head("tools/call", "store", body.len()))
    }
}

/// Sends a whole request over a connection. Returns the status and the answer.
pub(crate) async fn ask(mut connected: TcpStream, request: &str) -> Result<(u16, Value)> {
    connected.write_all(request.as_bytes()).await?;
    answer(connected).await
}

/// The answer to what was sent over a connection.
pub(crate) async fn answer(connected: TcpStream) -> Result<(u16, Value)> {
    answer_within(connected, PATIENCE).await
}

/// The same for what a server works on for longer.
pub(crate) async fn answer_within(
    mut connected: TcpStream,
    patience: Duration,
) -> Result<(u16, Value)> {
    let mut answer = String::new();
    timeout(patience, connected.read_to_string(&mut answer))
        .await
        .context("no answer in time")??;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("no end of the head")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, serde_json::from_str(body).unwrap_or(json!(body))))
}
