//! SIGHUP: nodes and servers read their files again, say what came of it, and go on.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::{Context as _, Result, bail};
use helve_node::tls::authority::Life;
use helve_tests::{
    certificates::{Certificates, LIFE},
    cluster::Equipment,
    wait::{Look, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    binary,
    command_json::free_ports,
    mcp_process::{Caller, ask},
    nodes,
    probes::get,
};

fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("process 0")?;
    Ok(kill_process(pid, signal)?)
}

/// Waits until the text holds all of these.
async fn says(what: &str, words: &[&str], text: impl Fn() -> String) -> Result<()> {
    until(what, async || {
        let text = text();
        match words.iter().find(|word| !text.contains(**word)) {
            None => Look::Done(()),
            Some(missing) => Look::NotYet(format!("`{missing}` is missing from: {text}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_that_a_signal_stops_ends_well() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let endpoint = cluster.endpoints()[0].clone();
    for signal in [Signal::INT, Signal::TERM] {
        let printed = tempfile::NamedTempFile::new()?;
        let mut watch = Command::new(binary())
            .args(["watch", "keys", "--endpoints", &endpoint])
            .stdout(printed.reopen()?)
            .spawn()?;
        // What is written before it watches is not printed.
        until("the command watches", async || {
            let store = ["state", "store", "a", "1"];
            let stored = Command::new(binary())
                .args(store)
                .args(["--endpoints", &endpoint])
                .output();
            let page = fs::read_to_string(printed.path()).unwrap_or_default();
            match stored {
                Ok(_) if !page.is_empty() => Look::Done(()),
                stored => Look::NotYet(format!("{stored:?}")),
            }
        })
        .await?;
        send(watch.id(), signal)?;
        let status = tokio::task::spawn_blocking(move || watch.wait()).await??;
        assert_eq!(status.code(), Some(0), "{signal:?}: {status}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hangup_makes_a_node_read_its_files_again() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (directives, key) = (files.path().join("log"), files.path().join("data.key"));
    let audit = files.path().join("audit.log");
    fs::write(&directives, "info\n")?;
    helve_tests::token::write_secret(&key, &[7; 32])?;
    let mut cluster = nodes(1)
        .on(Equipment::Certificates)
        .with("HELVE_LOG", &format!("@{}", directives.display()))
        .with("HELVE_DATA_KEY_FILE", &key.display().to_string())
        .with("HELVE_AUDIT_LOG", &audit.display().to_string())
        .start()
        .await?;
    let pid = cluster.node(1).pid().context("it runs")?;
    let log = |cluster: &helve_tests::cluster::Cluster| {
        fs::read_to_string(cluster.log_file(1)).unwrap_or_default()
    };

    fs::write(&directives, "info,helve_node=debug\n")?;
    fs::rename(&audit, files.path().join("audit.old"))?;
    send(pid, Signal::HUP)?;
    let words = [
        "what=--tls-cert now=expires in",
        "what=--peer-tls-cert now=expires in",
        "what=data keys now=held: ",
        "what=--audit-log",
        "what=--log now=info,helve_node=debug",
    ];
    says("all files to be read again", &words, || log(&cluster)).await?;
    // No call has come since: the file is begun again by the signal alone.
    until("the audit log to go on in a new file", async || {
        Look::of(fs::metadata(&audit))
    })
    .await?;

    // What is broken is named, and what was read before is in use.
    fs::write(&directives, "=\n")?;
    fs::remove_file(&key)?;
    fs::write(cluster.certificates()?.path("node.crt"), "half a file")?;
    send(pid, Signal::HUP)?;
    let words = [
        "stays in use what=--tls-cert error=",
        "stays in use what=data keys error=",
        "stays in use what=--log error=",
    ];
    says("what is broken to be named", &words, || log(&cluster)).await?;
    cluster.ready(1).await?;
    cluster.node_mut(1).assert_running()
}

/// A process whose standard error is read all the time.
struct Watched {
    child: Child,
    /// The line in which it says where it serves.
    line: String,
    said: Arc<Mutex<String>>,
}

impl Watched {
    /// Starts a command, and waits for the line in which it says where it serves.
    fn start(arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(binary())
            .args(arguments)
            .args(["--output", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("it was piped")?;
        let err = child.stderr.take().context("it was piped")?;
        let said = Arc::default();
        thread::spawn({
            let said = Arc::clone(&said);
            move || gather(err, &said)
        });
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(Self { child, line, said })
    }

    /// Where it serves MCP.
    fn mcp(&self) -> Result<String> {
        let line: Value = serde_json::from_str(&self.line).with_context(|| self.line.clone())?;
        let url = line["mcp"].as_str().context("no URL")?;
        Ok(url.to_owned())
    }

    fn said(&self) -> String {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn gather(from: ChildStderr, said: &Mutex<String>) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&line);
        said.push('\n');
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hangup_ends_no_server_and_sets_its_log_level() -> Result<()> {
    let files = tempfile::tempdir()?;
    let directives = files.path().join("log");
    let said = format!("@{}", directives.display());
    let port = free_ports()?.to_string();
    let servers: [&[&str]; 4] = [
        &["dev", "--port", &port],
        &["mcp", "--memory", "--listen", "127.0.0.1:0"],
        &["cart", "--listen", "127.0.0.1:0"],
        &["balancer", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"],
    ];
    for server in servers {
        fs::write(&directives, "info")?;
        let mut server = Watched::start(&[server, &["--log", &said]].concat())?;
        fs::write(&directives, "debug,h2=off")?;
        for _ in 0..2 {
            send(server.child.id(), Signal::HUP)?;
        }
        let words = ["SIGHUP: reading files again", "now=debug,h2=off"];
        says("the new level to be in use", &words, || server.said()).await?;
        assert_eq!(server.child.try_wait()?, None, "{}", server.said());
        send(server.child.id(), Signal::TERM)?;
        let ended = server.child.wait()?;
        assert_eq!(ended.code(), Some(0), "{}", server.said());
    }
    Ok(())
}

/// Secrets of token keys, and HS256 over [`CLAIMS`] under each.
const SECRETS: [(&str, &str); 2] = [
    (
        "GzE299WlZWZ/LYmI6K7B6vCf/y8F4Z0PhYaOQiybgF8=",
        "IQ7_Lvur45q-AqdQ71xo08E3v2eCqYZGNBophWwaUdE",
    ),
    (
        "CZLBX449RryK+eN2FKKLkxBZaSYUOp5gWs0Mw3Tzo3k=",
        "kENYHdYGWdBYO1IHrnDtfBL9IL1gDkzzjim-YCqvfoY",
    ),
];
/// Header and claims: `{"alg":"HS256"}`, and `{"sub":"ann","aud":"test","exp":4102444800}`, which is the year 2100.
const CLAIMS: &str =
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4iLCJhdWQiOiJ0ZXN0IiwiZXhwIjo0MTAyNDQ0ODAwfQ";

fn put_secret(path: &Path, secret: &str) -> Result<()> {
    if path.exists() {
        fs::remove_file(path)?;
    }
    helve_tests::token::write_secret(path, secret.as_bytes())
}

/// Whether a server lets a token with this signature in. The request itself is no message, and is refused with another status than a
/// token that does not hold.
async fn is_let_in(mcp: &str, signature: &str) -> Result<bool> {
    let address = mcp.strip_prefix("http://").context("a URL of HTTP")?;
    let (address, path) = address.split_once('/').context("a path")?;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Authorization: Bearer {CLAIMS}.{signature}\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.split(' ').nth(1) {
        Some("401") => Ok(false),
        Some(status) if status.starts_with('4') => Ok(true),
        _ => bail!("{answer}"),
    }
}

/// Only the signal has the server say which keys are in use.
#[tokio::test(flavor = "multi_thread")]
async fn hangup_puts_new_token_keys_in_force_and_old_ones_out() -> Result<()> {
    let files = tempfile::tempdir()?;
    let secret = files.path().join("secret");
    let path = secret.display().to_string();
    let [(first, by_first), (second, by_second)] = SECRETS;
    let flags = [
        "--token-secret-file",
        &path,
        "--token-audience",
        "test",
        "--listen",
        "127.0.0.1:0",
    ];
    let servers: [&[&str]; 2] = [&["mcp", "--memory"], &["cart"]];
    for server in servers {
        put_secret(&secret, first)?;
        let server = Watched::start(&[server, &flags[..]].concat())?;
        put_secret(&secret, second)?;
        send(server.child.id(), Signal::HUP)?;
        let words = ["what=token keys now=", &path];
        says("the keys to be read again", &words, || server.said()).await?;
        let mcp = server.mcp()?;
        assert!(is_let_in(&mcp, by_second).await?, "{}", server.said());
        assert!(!is_let_in(&mcp, by_first).await?, "{}", server.said());
        // What cannot be used is named, and what was read before is in force.
        put_secret(&secret, "short")?;
        send(server.child.id(), Signal::HUP)?;
        let words = ["stays in use what=token keys error="];
        says("the bad key to be named", &words, || server.said()).await?;
        assert!(is_let_in(&mcp, by_second).await?, "{}", server.said());
    }
    Ok(())
}

/// A store of a value through a server, which must succeed.
async fn stores(mcp: &str, key: &str) -> Result<()> {
    let address = mcp.strip_prefix("http://").context("a URL of HTTP")?;
    let (address, _) = address.split_once('/').context("a path")?;
    let stream = TcpStream::connect(address).await?;
    let (status, answer) = ask(stream, &Caller::default().store(key)).await?;
    if status != 200 || answer["result"]["isError"] != Value::Bool(false) {
        bail!("{status}: {answer}");
    }
    Ok(())
}

/// The CA of the nodes is replaced while a server runs: what its files hold then counts for new connections.
#[tokio::test(flavor = "multi_thread")]
async fn server_goes_on_when_its_nodes_ca_is_replaced() -> Result<()> {
    let mut cluster = nodes(1).on(Equipment::Certificates).start().await?;
    let files = tempfile::tempdir()?;
    let ca = files.path().join("ca.crt");
    fs::copy(cluster.certificates()?.path("ca.crt"), &ca)?;
    let (endpoints, path) = (cluster.endpoints().join(","), ca.display().to_string());
    let flags = [
        "mcp",
        "--listen",
        "127.0.0.1:0",
        "--enable-writes",
        "--assume-yes",
        "--endpoints",
        &endpoints,
        "--tls-ca",
        &path,
        "--timeout",
        "30s",
    ];
    let server = Watched::start(&flags)?;
    let mcp = server.mcp()?;
    stores(&mcp, "before").await?;

    let next = Certificates::make(files.path().join("next"))?;
    let host = cluster.endpoints()[0].clone();
    let (host, _) = host.rsplit_once(':').context("a port")?;
    next.node("node", host, Life::of(LIFE))?;
    for name in ["ca.crt", "node.crt", "node.key"] {
        fs::copy(next.path(name), cluster.certificates()?.path(name))?;
    }
    // A file that is half written changes nothing, and is named.
    fs::write(&ca, "half a file")?;
    send(server.child.id(), Signal::HUP)?;
    let words = ["stays in use what=--tls-ca", "holds no certificate"];
    says("the broken file to be named", &words, || server.said()).await?;
    stores(&mcp, "on the connection of before").await?;
    fs::copy(next.path("ca.crt"), &ca)?;
    // New connections, to a node with a certificate of the new CA.
    cluster.node_mut(1).kill()?;
    cluster.node_mut(1).start()?;
    stores(&mcp, "after").await?;
    send(server.child.id(), Signal::HUP)?;
    let words = ["what=--tls-ca, --tls-client-cert now=in use"];
    says("the new file to be in use", &words, || server.said()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn node_whose_standard_error_has_gone_serves_on() -> Result<()> {
    let port = free_ports()?.to_string();
    let mut child = Command::new(binary())
        .args(["dev", "--port", &port, "--log", "trace", "--output", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().context("it was piped")?;
    let mut line = String::new();
    let reading = thread::spawn({
        let err = child.stderr.take().context("it was piped")?;
        move || {
            // As `helve dev 2>&1 | head -1`, or a terminal that is closed.
            let _first = BufReader::new(err).lines().next();
        }
    });
    BufReader::new(out).read_line(&mut line)?;
    reading.join().ok().context("the reader broke")?;
    let dev: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
    let http: SocketAddr = dev["http"].as_str().context("no address")?.parse()?;
    send(child.id(), Signal::HUP)?;
    for _ in 0..20 {
        let page = get(http, "/metrics").await?;
        assert!(page.1.contains("helve_"), "{}", page.1);
    }
    assert_eq!(child.try_wait()?, None);
    send(child.id(), Signal::TERM)?;
    assert_eq!(child.wait()?.code(), Some(0));
    Ok(())
}
