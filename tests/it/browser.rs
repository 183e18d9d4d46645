//! A page in a real browser: it lists and calls the tools of an MCP server of another origin, and reads its refusals.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use helve_tests::{
    fault::left_out,
    process::{Process, Start},
    wait::{Look, until},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::{binary, probes::get};

pub(crate) const CHROMIUM: &str = "chromium";

/// How long a test waits for Chromium, which may take minutes to start on a busy machine. It ends a
/// test that would hang, and asserts no speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// What the page does. It reports what it could read to the server that it comes from.
const PAGE: &str = r#"<!doctype html><title>Tools</title><script>
const SERVER = "@SERVER@";
let id = 0;
async function ask(method, params, more) {
  const meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}};
  const headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, ...more};
  if (params.name) headers["Mcp-Name"] = params.name;
  const body = JSON.stringify({jsonrpc: "2.0", id: ++id, method, params: {...params, _meta: meta}});
  const answer = await fetch(SERVER + "/mcp", {method: "POST", headers, body});
  return {status: answer.status, body: await answer.text()};
}
(async () => {
  let report;
  try {
    const listed = await ask("tools/list", {}, {});
    const stored = await ask("tools/call", {name: "store", arguments: {key: "k", value: 7}}, {"Mcp-Param-Region": "eu"});
    const read = await ask("tools/call", {name: "retrieve", arguments: {key: "k"}}, {"Authorization": "Bearer x"});
    const lost = await fetch(SERVER + "/nowhere");
    report = {
      tools: JSON.parse(listed.body).result.tools.map(tool => tool.name),
      stored: JSON.parse(stored.body).result.structuredContent.status,
      value: JSON.parse(read.body).result.structuredContent.value,
      lost: lost.status,
    };
  } catch (error) {
    report = {error: String(error)};
  }
  await fetch("/report", {method: "POST", body: JSON.stringify(report)});
})();
</script>"#;

/// What ends with the test.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Why there is no browser; `None` if there is one.
pub(crate) fn is_missing() -> Option<String> {
    let found = Command::new(CHROMIUM)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found
        .err()
        .map(|error| format!("chromium does not start ({error}): install the package chromium"))
}

/// Serves the page until it has reported.
async fn reported(listener: &TcpListener, server: SocketAddr) -> Result<Value> {
    loop {
        let (stream, _) = listener.accept().await?;
        if let Some(report) = served(stream, server).await? {
            return Ok(report);
        }
    }
}

/// Serves one request: the page, or what it reports.
async fn served(stream: TcpStream, server: SocketAddr) -> Result<Option<Value>> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let page = if first.starts_with("GET / ") {
        PAGE.replace("@SERVER@", &format!("http://localhost:{}", server.port()))
    } else {
        String::new()
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let is_report = first.starts_with("POST /report ");
    is_report
        .then(|| serde_json::from_slice(&body).context("a report in JSON"))
        .transpose()
}

/// An MCP server that lets in pages of this origin, with a bug if one is named.
fn server(listen: SocketAddr, origin: &str, bug: &str, log: std::path::PathBuf) -> Result<Process> {
    let listen = listen.to_string();
    let arguments = [
        "mcp",
        "--memory",
        "--enable-writes",
        "--assume-yes",
        "--listen",
        &listen,
        "--allowed-origin",
        origin,
    ];
    let start = Start {
        binary: binary(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: vec![("HELVE_PLANTED".to_owned(), bug.to_owned())],
    };
    let mut process = Process::new(start, log);
    process.start()?;
    Ok(process)
}

/// What the page reports of a server with this bug; `None` if there is no browser.
async fn page_of_server(bug: &str) -> Result<Option<Value>> {
    if left_out("a page in a browser", is_missing()).is_some() {
        return Ok(None);
    }
    let directory = tempfile::tempdir()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let origin = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    // A free port of the machine's own address, which the page calls by another name.
    let free = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let mut process = server(free, &origin, bug, directory.path().join("mcp.log"))?;
    until("the server to be ready", async || {
        Look::of(get(free, "/readyz").await.map(drop))
    })
    .await?;
    let _browser = Browser(
        Command::new(CHROMIUM)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-dev-shm-usage",
            ])
            .arg(format!(
                "--user-data-dir={}",
                directory.path().join("profile").display()
            ))
            .arg("--remote-debugging-port=0")
            .arg(&origin)
            .env("HOME", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?,
    );
    let report = tokio::time::timeout(PATIENCE, reported(&listener, free)).await;
    let report = report.context("the page reports nothing")??;
    process.assert_running()?;
    Ok(Some(report))
}

#[tokio::test(flavor = "multi_thread")]
async fn page_in_chromium_lists_and_calls_tools_of_another_origin() -> Result<()> {
    let Some(report) = page_of_server("").await? else {
        return Ok(());
    };
    ensure!(report["error"] == Value::Null, "{report}");
    assert_eq!(report["stored"], json!("created"), "{report}");
    assert_eq!(report["value"], json!(7), "{report}");
    assert_eq!(report["lost"], json!(404), "{report}");
    let tools = report["tools"].as_array().context("tools")?;
    assert!(tools.contains(&json!("store")), "{report}");
    Ok(())
}

/// What shows that the test above fails without the layer for browsers.
#[cfg(feature = "planted")]
#[tokio::test(flavor = "multi_thread")]
async fn page_cannot_call_a_server_without_cors() -> Result<()> {
    let Some(report) = page_of_server("no-cors").await? else {
        return Ok(());
    };
    let error = report["error"].as_str().context("the page could call")?;
    assert!(error.contains("Failed to fetch"), "{report}");
    Ok(())
}
