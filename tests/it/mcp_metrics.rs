//! What a scraper reads of `helve mcp`: on a listener of its own, and only there.

use std::{collections::BTreeMap, net::SocketAddr};

use anyhow::{Context as _, Result};
use helve_tests::{
    address,
    process::Process,
    promise,
    wait::{Look, until},
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::{
    mcp_process::{Caller, answer, ask, ready, server},
    probes::{get, no_wrong_unit},
};

const STRANGER: Caller<'static> = Caller { token: None };
const HEADS: &str = r#"helve_mcp_connection_limits_refused_total{bound="head_time"}"#;
const BODIES: &str = r#"helve_mcp_connection_limits_refused_total{bound="body_bytes"}"#;

/// A server whose metrics are on a port of their own.
struct Watched {
    process: Process,
    mcp: SocketAddr,
    metrics: SocketAddr,
    _directory: TempDir,
}

impl Watched {
    async fn start(more: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ip = address::next_loopback();
        let (mcp, metrics) = (SocketAddr::new(ip, 8_080), SocketAddr::new(ip, 9_090));
        let scraped = metrics.to_string();
        let own = ["--memory", "--assume-yes", "--metrics-listen", &scraped];
        let mut process = server(directory.path(), mcp, &[&own[..], more].concat(), None);
        process.start()?;
        ready(mcp).await?;
        Ok(Self {
            process,
            mcp,
            metrics,
            _directory: directory,
        })
    }

    /// Each line of the page that has a number.
    async fn scrape(&self) -> Result<BTreeMap<String, f64>> {
        let (status, page) = get(self.metrics, "/metrics").await?;
        promise!(status == 200 && page.ends_with("# EOF\n"), "{page}");
        no_wrong_unit(&page);
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').context("a name and a number")?;
                Ok((name.to_owned(), value.parse()?))
            })
            .collect()
    }

    /// What the page says of a line; 0 if it has none.
    async fn number(&self, line: &str) -> Result<f64> {
        Ok(self.scrape().await?.get(line).copied().unwrap_or_default())
    }

    /// How many requests of a method came to this, or to anything if it is empty.
    async fn requests(&self, method: &str, outcome: &str) -> Result<f64> {
        let begin = format!("helve_mcp_requests_total{{method=\"{method}\",outcome=\"{outcome}");
        let page = self.scrape().await?;
        let counted = page.iter().filter(|(line, _)| line.starts_with(&begin));
        Ok(counted.map(|(_, number)| number).sum())
    }

    async fn send(&self, request: &str) -> Result<u16> {
        let connected = TcpStream::connect(self.mcp).await?;
        Ok(ask(connected, request).await?.0)
    }
}

fn listen() -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    let method = "subscriptions/listen";
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let body = message.to_string();
    format!("{}{body}", STRANGER.head(method, method, body.len()))
}

#[tokio::test]
async fn numbers_of_an_mcp_server_move_on_a_listener_of_their_own() -> Result<()> {
    let watched = Watched::start(&[]).await?;
    assert_eq!(get(watched.mcp, "/metrics").await?.0, 404);
    assert_eq!(get(watched.metrics, "/mcp").await?.0, 404);
    assert_eq!(watched.requests("tools/call", "").await?, 0.0);

    assert_eq!(watched.send(&STRANGER.store("k")).await?, 200);
    assert_eq!(watched.requests("tools/call", "ok").await?, 1.0);
    let times = r#"helve_mcp_request_seconds_count{method="tools/call"}"#;
    assert_eq!(watched.number(times).await?, 1.0);
    // A key that is no key: the tool says so, with HTTP 200.
    assert_eq!(watched.send(&STRANGER.store("")).await?, 200);
    let failed = watched.requests("tools/call", "tool_error").await?
        + watched.requests("tools/call", "error").await?;
    assert_eq!(failed, 1.0);
    // This server has nothing to subscribe to.
    let refused = watched.send(&listen()).await?;
    assert_ne!(refused, 200);
    assert_eq!(watched.requests("subscriptions/listen", "").await?, 1.0);
    assert_eq!(watched.requests("subscriptions/listen", "ok").await?, 0.0);
    // The path that is none has a count, and no name that a caller made up does.
    assert_eq!(watched.requests("GET", "not_found").await?, 1.0);
    assert!(watched.number("process_resident_memory_bytes").await? > 0.0);
    Ok(())
}

#[tokio::test]
async fn what_a_bound_refuses_is_counted_under_its_name() -> Result<()> {
    let watched = Watched::start(&["--head-timeout", "3s"]).await?;
    let mut slow = TcpStream::connect(watched.mcp).await?;
    slow.write_all(b"POST /mcp HTTP/1.1\r\nHost: local").await?;
    // The system may have accepted it, and not yet the server.
    let page = until("the connection to be counted", async || {
        match watched.scrape().await {
            Ok(page) if page.get("helve_mcp_connections") == Some(&1.0) => Look::Done(page),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    assert_eq!(page.get(HEADS).copied().unwrap_or_default(), 0.0);
    assert_eq!(answer(slow).await?.0, 408);
    assert_eq!(watched.number(HEADS).await?, 1.0);

    let large = STRANGER.head("tools/call", "store", 1 << 30);
    assert_eq!(watched.send(&large).await?, 413);
    assert_eq!(watched.number(BODIES).await?, 1.0);

    // Part of a body: its bytes are held until its caller goes.
    let mut part = TcpStream::connect(watched.mcp).await?;
    let head = STRANGER.head("tools/call", "store", 1 << 20);
    part.write_all(format!("{head}{}", " ".repeat(1 << 16)).as_bytes())
        .await?;
    until("the bytes of a body to be counted", async || match watched
        .number("helve_mcp_request_body_bytes")
        .await
    {
        Ok(bytes) if bytes >= f64::from(1 << 16) => Look::Done(()),
        other => Look::NotYet(format!("{other:?}")),
    })
    .await?;
    drop(part);
    until("the bytes to be given back", async || {
        match watched.number("helve_mcp_request_body_bytes").await {
            Ok(0.0) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_server_that_drains_says_so_to_its_scraper() -> Result<()> {
    let mut watched = Watched::start(&["--drain-delay", "1h"]).await?;
    assert_eq!(watched.number("helve_mcp_draining").await?, 0.0);
    watched.process.terminate()?;
    until("the server to drain", async || {
        match watched.number("helve_mcp_draining").await {
            Ok(1.0) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    watched.process.terminate()?;
    let status = watched.process.stopped().await?;
    promise!(status.success(), "{status}: {}", watched.process.log_tail());
    Ok(())
}
