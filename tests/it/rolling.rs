//! MCP servers that are stopped while callers write, behind haproxy one after the other: no call fails, and each leaves its audit line.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use anyhow::{Result, bail, ensure};
use helve_tests::{
    address,
    fault::left_out,
    process::Process,
    wait::{Look, until},
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, task::JoinSet};

use super::{
    mcp_process::{Caller, answer, ask, ready, server},
    nodes,
    probes::get,
};

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
    timeout check 10s
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

/// Servers that write without asking, so that each call takes one request.
fn started(directory: &Path, servers: &[SocketAddr], endpoints: &str) -> Result<Vec<Process>> {
    let more = [
        "--endpoints",
        endpoints,
        "--assume-yes",
        "--drain-delay",
        "1s",
    ];
    let mut processes = Vec::new();
    for listen in servers {
        let mut process = server(directory, *listen, &more, None);
        process.start()?;
        processes.push(process);
    }
    Ok(processes)
}

/// Calls that were made, and what went wrong with those that failed.
#[derive(Default)]
struct Calls {
    done: AtomicU64,
    failed: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Calls {
    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Writes until it is over.
    async fn make(&self, front: SocketAddr, caller: usize) {
        for call in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            match store(front, &format!("{caller}/{call}")).await {
                Ok(()) => {}
                Err(error) => self.failed().push(format!("{caller}/{call}: {error:#}")),
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn failed(&self) -> MutexGuard<'_, Vec<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn store(front: SocketAddr, key: &str) -> Result<()> {
    let connected = TcpStream::connect(front).await?;
    is_stored(ask(connected, &Caller::default().store(key)).await?)
}

fn is_stored((status, answer): (u16, Value)) -> Result<()> {
    ensure!(status == 200, "{status}: {answer}");
    ensure!(answer["result"]["isError"] == json!(false), "{answer}");
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
    let calls = Arc::<Calls>::default();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let calls = Arc::clone(&calls);
        callers.spawn(async move { calls.make(front, caller).await });
    }
    for roll in 0..ROLLS * servers.len() {
        let number = roll % servers.len();
        let before = calls.done();
        processes[number].terminate()?;
        let status = processes[number].stopped().await?;
        ensure!(
            status.success(),
            "{status}: {}",
            processes[number].log_tail()
        );
        processes[number].start()?;
        is_up(front, number).await?;
        ensure!(calls.done() > before, "no call was made meanwhile");
    }
    calls.is_over.store(true, Ordering::Relaxed);
    callers.join_all().await;
    let (failed, done) = (calls.failed(), calls.done());
    let first = failed.first();
    ensure!(
        failed.is_empty(),
        "{} of {done} calls failed; the first: {first:?}",
        failed.len()
    );
    Ok(())
}

/// Waits until nothing listens at an address any more.
async fn closed(address: SocketAddr) -> Result<()> {
    until(
        "the listener to close",
        async || match TcpStream::connect(address).await {
            Ok(_) => Look::NotYet("it accepts connections".to_owned()),
            Err(_refused) => Look::Done(()),
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn call_under_way_at_sigterm_is_answered_and_leaves_its_audit_line() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let cluster = nodes(1).start().await?;
    let endpoints = cluster.endpoints().join(",");
    let address = SocketAddr::new(address::next_loopback(), 8_080);
    let more = [
        "--endpoints",
        &endpoints,
        "--assume-yes",
        "--timeout",
        "1m",
        "--drain-timeout",
        "1m",
    ];
    let mut process = server(directory.path(), address, &more, None);
    process.start()?;
    ready(address).await?;
    store(address, "before").await?;
    // What is stored now is under way until the node runs on.
    cluster.node(1).freeze()?;
    let mut connected = TcpStream::connect(address).await?;
    let request = Caller::default().store("under-way");
    connected.write_all(request.as_bytes()).await?;
    process.terminate()?;
    closed(address).await?;
    cluster.node(1).thaw()?;
    is_stored(answer(connected).await?)?;
    let status = process.stopped().await?;
    ensure!(status.success(), "{status}: {}", process.log_tail());
    let log = process.log_tail();
    ensure!(audited(&log, "DONE"), "no line about the call:\n{log}");
    Ok(())
}

/// Whether the log has a line about the call under way, which ended so.
fn audited(log: &str, outcome: &str) -> bool {
    log.lines().any(|line| {
        let words = ["helve::audit", "under-way", outcome];
        words.iter().all(|word| line.contains(word))
    })
}

/// Whether a call that its server does not wait for, or not to its end, leaves a line: by the
/// flag, and the number of signals, of which all but the first come once the listener is closed.
async fn cut_off(drain_timeout: &str, signals: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let cluster = nodes(1).start().await?;
    let endpoints = cluster.endpoints().join(",");
    let address = SocketAddr::new(address::next_loopback(), 8_080);
    let more = [
        "--endpoints",
        &endpoints,
        "--assume-yes",
        "--timeout",
        "1m",
        "--drain-timeout",
        drain_timeout,
        "--log",
        "helve_client=debug,info",
    ];
    let mut process = server(directory.path(), address, &more, None);
    process.start()?;
    ready(address).await?;
    store(address, "before").await?;
    cluster.node(1).freeze()?;
    let mut connected = TcpStream::connect(address).await?;
    let request = Caller::default().store("under-way");
    let tries = |process: &Process| process.log_tail().matches("trying again").count();
    let before = tries(&process);
    connected.write_all(request.as_bytes()).await?;
    // A call that did not begin has no line. One that tries again has.
    until("the call to be under way", async || {
        match tries(&process) > before {
            true => Look::Done(()),
            false => Look::NotYet("it has not been tried twice".to_owned()),
        }
    })
    .await?;
    process.terminate()?;
    closed(address).await?;
    for _ in 1..signals {
        process.terminate()?;
    }
    let status = process.stopped().await?;
    ensure!(status.success(), "{status}: {}", process.log_tail());
    let log = process.log_tail();
    ensure!(audited(&log, "CUT_OFF"), "no line about the call:\n{log}");
    cluster.node(1).thaw()
}

#[tokio::test(flavor = "multi_thread")]
async fn call_over_the_drain_timeout_leaves_its_audit_line() -> Result<()> {
    cut_off("1s", 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn call_cut_off_by_a_second_signal_leaves_its_audit_line() -> Result<()> {
    cut_off("1m", 2).await
}
