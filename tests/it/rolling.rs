//! MCP servers that are restarted one after the other behind haproxy while callers write: no call fails.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result, bail, ensure};
use helve_tests::{
    address,
    fault::left_out,
    process::{Process, Start},
    wait::{Look, until},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{binary, nodes, probes::get};

const HAPROXY: &str = "haproxy";
/// Restarts of each server.
const ROLLS: usize = 3;
const CALLERS: usize = 4;

/// What ends with the test.
struct Balancer(Child);

impl Drop for Balancer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn is_missing() -> Option<String> {
    let found = Command::new(HAPROXY)
        .arg("-v")
        .stdout(Stdio::null())
        .status();
    found
        .err()
        .map(|error| format!("haproxy does not start ({error}): install the package haproxy"))
}

fn balancer(directory: &Path, front: SocketAddr, servers: &[SocketAddr]) -> Result<Balancer> {
    let mut config = format!(
        "defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    retries 3
    option redispatch
frontend in
    bind {front}
    stats enable
    stats uri /stats
    default_backend replicas
backend replicas
    option httpchk GET /readyz
    http-check expect status 200
    default-server inter 50ms fall 1 rise 1
"
    );
    for (number, server) in servers.iter().enumerate() {
        config.push_str(&format!("    server s{number} {server} check\n"));
    }
    let file = directory.join("haproxy.cfg");
    std::fs::write(&file, config)?;
    let child = Command::new(HAPROXY)
        .args(["-db", "-f"])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Balancer(child))
}

/// Waits until haproxy sends callers to a server.
async fn is_up(front: SocketAddr, number: usize) -> Result<()> {
    until("haproxy to see the server", async || {
        let row = format!("replicas,s{number},");
        Look::of(get(front, "/stats;csv").await.and_then(|(_, page)| {
            let row = page.lines().find(|line| line.starts_with(&row));
            match row {
                Some(row) if row.contains(",UP,") => Ok(()),
                row => bail!("{row:?}"),
            }
        }))
    })
    .await
}

/// Stores a value under a key. Returns the status and the answer.
async fn store(front: SocketAddr, key: &str) -> Result<(u16, Value)> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "store", "arguments": {"key": key, "value": 1}, "_meta": meta});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: store\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut connected = TcpStream::connect(front).await?;
    connected.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connected.read_to_string(&mut answer).await?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("no end of the head")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, serde_json::from_str(body).unwrap_or(json!(body))))
}

/// Servers of the state tool that write without asking, so that each call takes one request.
fn started(directory: &Path, servers: &[SocketAddr], endpoints: &str) -> Result<Vec<Process>> {
    let mut processes = Vec::new();
    for server in servers {
        let listen = server.to_string();
        let arguments = [
            "mcp",
            "--endpoints",
            endpoints,
            "--listen",
            &listen,
            "--enable-writes",
            "--assume-yes",
            "--drain-delay",
            "1s",
        ];
        let start = Start {
            binary: binary(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: Vec::new(),
        };
        let mut process = Process::new(start, directory.join(format!("{}.log", server.port())));
        process.start()?;
        processes.push(process);
    }
    Ok(processes)
}

/// Writes until it is over, and fails with the first call that does.
async fn write(
    front: SocketAddr,
    caller: usize,
    is_over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> Result<()> {
    for call in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{caller}/{call}");
        let (status, answer) = store(front, &key).await?;
        ensure!(status == 200, "{key}: {status}: {answer}");
        ensure!(
            answer["result"]["isError"] == json!(false),
            "{key}: {answer}"
        );
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_rolled_behind_haproxy_fail_no_call() -> Result<()> {
    if left_out("rolling restarts behind haproxy", is_missing()).is_some() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let cluster = nodes(1).start().await?;
    let ip: IpAddr = address::next_loopback();
    let front = SocketAddr::new(ip, 8_080);
    let servers = [SocketAddr::new(ip, 8_081), SocketAddr::new(ip, 8_082)];
    let mut processes = started(directory.path(), &servers, &cluster.endpoints().join(","))?;
    let _balancer = balancer(directory.path(), front, &servers)?;
    for number in 0..servers.len() {
        is_up(front, number).await?;
    }
    let (is_over, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        callers.push(tokio::spawn(write(
            front,
            caller,
            Arc::clone(&is_over),
            Arc::clone(&done),
        )));
    }
    for roll in 0..ROLLS * servers.len() {
        let number = roll % servers.len();
        let before = done.load(Ordering::Relaxed);
        processes[number].terminate()?;
        let status = processes[number].stopped().await?;
        ensure!(
            status.success(),
            "{status}: {}",
            processes[number].log_tail()
        );
        processes[number].start()?;
        is_up(front, number).await?;
        ensure!(
            done.load(Ordering::Relaxed) > before,
            "no call was made meanwhile"
        );
    }
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await??;
    }
    Ok(())
}
