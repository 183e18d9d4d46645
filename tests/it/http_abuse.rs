//! Callers of `helve mcp` that take up connections, memory and sessions: what they can take is bounded, in number and bytes, and an
//! honest caller is served meanwhile. Times play no part: the attackers are given all the time they want.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, stream};
use helve_tests::{
    address,
    attack::memory::{peak_bytes, resident_bytes},
    process::Process,
    wait::PATIENCE,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
};

use super::mcp_process::{Caller, answer_within, ask, ready, server};

/// What tokens are signed with.
const SECRET: &str = "+Ieo1JR59WKhhkZ1EMU8eNNUE/Y2jbrSdqfyvahnBXE=";
/// Alice's, until the year 2100.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImF1ZCI6Imh0dHA6Ly9oZWx2ZS50ZXN0L21jcCIsImlzcyI6Imh0dHA6Ly9pc3N1ZXIudGVzdCIsImV4cCI6NDEwMjQ0NDgwMH0.FzJdG-FXzb1wEQNAwMGt-tOQZ8LOjtyVpdBAXKn0-FY";
const ALICE: Caller<'static> = Caller { token: Some(TOKEN) };
const NO_TOKEN: Caller<'static> = Caller { token: None };

/// Files that the attacked server may open, as a shell gives by default.
const OPEN_FILES: u32 = 1_024;
/// Connections that would take all of them.
const HALF_HEADS: usize = 1_030;

/// Requests whose body never ends, the bytes of each, and the hosts that they come from.
const STALLED_BODIES: usize = 200;
const STALLED_BYTES: usize = 8 << 20;
const HOSTS: usize = 4;
/// What the server may hold for all of them: its bound on bodies is 256 MiB, and the buffers that bytes arrive in have some room.
const STALLED_HELD_MAX: u64 = 384 << 20;

/// Values of a body as large as may be, and of one that is not refused for their number.
const VALUES: [usize; 2] = [12 << 20, 590_000];
/// Bodies of each kind, and what the server may hold for them.
const FULL_BODIES: usize = 8;
const FULL_HELD_MAX: u64 = 512 << 20;

/// Bytes of a body that comes in chunks of one byte, how many such bodies come at once, and what the
/// server may hold for them. A chunk that is kept takes 32 bytes, without the buffer that it came in.
const CHUNKS: usize = 1 << 20;
const CHUNKED_BODIES: usize = 2;
const CHUNKED_HELD_MAX: u64 = 32 << 20;

/// Sessions whose memory is counted, after some for which a process takes what it keeps anyway. Together they are within one
/// caller's share of a replica, which is 256.
const SESSIONS: u64 = 200;
const SESSIONS_BEFORE: u64 = 50;
/// The version that sessions are begun with: whichever it is, they are counted.
const BEGUN_AS: &str = "2026-07-28";
/// What a session of an older client may hold in a replica.
const SESSION_HELD_MAX: u64 = 160 << 10;

/// A server that knows its callers by their tokens, keeps everything in memory, and gives callers an hour for everything.
struct Attacked {
    process: Process,
    address: SocketAddr,
    _directory: TempDir,
}

impl Attacked {
    async fn start(more: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let secret = directory.path().join("secret");
        write_secret(&secret)?;
        let address = SocketAddr::new(address::next_loopback(), 8_080);
        let secret = secret.to_str().context("a path in UTF-8")?;
        let own = [
            "--memory",
            "--assume-yes",
            "--token-secret-file",
            secret,
            "--token-audience",
            "http://helve.test/mcp",
            "--token-issuer",
            "http://issuer.test",
            "--head-timeout",
            "1h",
            "--body-timeout",
            "1h",
        ];
        let flags = [&own[..], more].concat();
        let mut process = server(directory.path(), address, &flags, Some(OPEN_FILES));
        process.start()?;
        ready(address).await?;
        Ok(Self {
            process,
            address,
            _directory: directory,
        })
    }

    fn pid(&self) -> Result<u32> {
        self.process.pid().context("the process runs")
    }

    /// Stores a value as Alice, from this host.
    async fn serves(&self, host: usize, key: &str) -> Result<()> {
        let connected = connect(self.address, host).await?;
        let (status, answer) = ask(connected, &ALICE.store(key)).await?;
        ensure!(status == 200, "{status}: {answer}");
        ensure!(answer["result"]["isError"] == json!(false), "{answer}");
        Ok(())
    }
}

fn write_secret(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, SECRET)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(())
}

/// A connection from one of many hosts of this machine.
async fn connect(to: SocketAddr, host: usize) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let last = u8::try_from(host + 1).context("few hosts")?;
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0)))?;
    Ok(socket.connect(to).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_heads_of_strangers_do_not_lock_callers_out() -> Result<()> {
    let attacked = Attacked::start(&[]).await?;
    let head = NO_TOKEN.head("tools/call", "store", 100);
    let half = &head.as_bytes()[..head.len() / 2];
    // Kept open until the end of the test.
    let mut held = Vec::new();
    for _ in 0..HALF_HEADS {
        let mut stranger = connect(attacked.address, 0).await?;
        // One that the server has closed by then takes up nothing.
        if stranger.write_all(half).await.is_ok() {
            held.push(stranger);
        }
    }
    for host in [0, 1] {
        attacked.serves(host, &format!("k{host}")).await?;
    }
    // The same over many hosts, so that no share of a host is what helps.
    for host in 2..2 + HALF_HEADS / 10 {
        for _ in 0..10 {
            let mut stranger = connect(attacked.address, host).await?;
            if stranger.write_all(half).await.is_ok() {
                held.push(stranger);
            }
        }
    }
    attacked.serves(1, "k2").await?;
    drop(held);
    Ok(())
}

/// Sends all but the end of a body. Returns the connection if the server has not closed it by then.
async fn stall(to: SocketAddr, host: usize, caller: Caller<'_>) -> Result<Option<TcpStream>> {
    let mut connected = connect(to, host).await?;
    let head = caller.head("tools/call", "store", STALLED_BYTES);
    // The server refuses what is over a bound, and closes the connection.
    if connected.write_all(head.as_bytes()).await.is_err() {
        return Ok(None);
    }
    let piece = vec![b' '; 64 << 10];
    for _ in 1..STALLED_BYTES / piece.len() {
        if connected.write_all(&piece).await.is_err() {
            return Ok(None);
        }
    }
    Ok(Some(connected))
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_bodies_take_bounded_memory() -> Result<()> {
    let attacked = Attacked::start(&[]).await?;
    attacked.serves(0, "before").await?;
    let before = peak_bytes(attacked.pid()?)?;
    for (caller, held_max) in [(NO_TOKEN, 32 << 20), (ALICE, STALLED_HELD_MAX)] {
        let stalled = stream::iter(0..STALLED_BODIES)
            .map(|number| stall(attacked.address, number % HOSTS, caller))
            .buffer_unordered(STALLED_BODIES);
        let held: Vec<_> = stalled.collect().await;
        let held = held.into_iter().collect::<Result<Vec<_>>>()?;
        let most = peak_bytes(attacked.pid()?)?.saturating_sub(before);
        println!(
            "{STALLED_BODIES} stalled bodies took at most {} MiB",
            most >> 20
        );
        ensure!(most <= held_max, "{most} bytes, over {held_max}");
        // While they stall, others are served.
        attacked.serves(HOSTS, "meanwhile").await?;
        drop(held);
    }
    Ok(())
}

/// Sends a request of a million pieces. Returns the status.
async fn send_in_pieces(to: SocketAddr, host: usize, request: &str) -> Result<u16> {
    let mut connected = connect(to, host).await?;
    connected.write_all(request.as_bytes()).await?;
    let (status, _) = answer_within(connected, 5 * PATIENCE).await?;
    Ok(status)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_tiny_chunks_take_no_more_than_their_bytes() -> Result<()> {
    let attacked = Attacked::start(&[]).await?;
    attacked.serves(0, "before").await?;
    let before = peak_bytes(attacked.pid()?)?;
    let head = ALICE.head("tools/call", "store", 0);
    let head = head.replace("Content-Length: 0", "Transfer-Encoding: chunked");
    // It is no message, and is refused once it is whole.
    let request = format!("{head}{}0\r\n\r\n", "1\r\n \r\n".repeat(CHUNKS));
    let sent = stream::iter(0..CHUNKED_BODIES)
        .map(|host| send_in_pieces(attacked.address, host, &request))
        .buffer_unordered(CHUNKED_BODIES);
    let told: Vec<_> = sent.collect().await;
    let told = told.into_iter().collect::<Result<Vec<_>>>()?;
    ensure!(told == [400; CHUNKED_BODIES], "{told:?}");
    let most = peak_bytes(attacked.pid()?)?.saturating_sub(before);
    println!(
        "{CHUNKED_BODIES} bodies of {CHUNKS} chunks took at most {} MiB",
        most >> 20
    );
    ensure!(
        most <= CHUNKED_HELD_MAX,
        "{most} bytes, over {CHUNKED_HELD_MAX}"
    );
    attacked.serves(HOSTS, "after").await
}

/// Stores an array of as many numbers, as Alice. Returns the status.
async fn store_numbers(to: SocketAddr, host: usize, values: usize) -> Result<u16> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({"key": "numbers", "value": "NUMBERS"});
    let params = json!({"name": "store", "arguments": arguments, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let numbers = format!("[{}0]", "0,".repeat(values - 1));
    let body = call.to_string().replace("\"NUMBERS\"", &numbers);
    let head = ALICE.head("tools/call", "store", body.len());
    let connected = connect(to, host).await?;
    let (status, _) = ask(connected, &format!("{head}{body}")).await?;
    Ok(status)
}

/// What a body becomes when it is parsed counts: two of its bytes can be a value of dozens.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_many_values_take_bounded_memory() -> Result<()> {
    let attacked = Attacked::start(&[]).await?;
    attacked.serves(0, "before").await?;
    let before = peak_bytes(attacked.pid()?)?;
    for (values, statuses) in VALUES.into_iter().zip([&[413][..], &[200, 429, 503]]) {
        let sent = stream::iter(0..FULL_BODIES)
            .map(|number| store_numbers(attacked.address, number % HOSTS, values))
            .buffer_unordered(FULL_BODIES);
        let told: Vec<_> = sent.collect().await;
        let told = told.into_iter().collect::<Result<Vec<_>>>()?;
        let most = peak_bytes(attacked.pid()?)?.saturating_sub(before);
        println!(
            "{FULL_BODIES} bodies of {values} values took at most {} MiB: {told:?}",
            most >> 20
        );
        let is_told = |status: &u16| statuses.contains(status);
        ensure!(told.iter().all(is_told), "{values} values: {told:?}");
        ensure!(most <= FULL_HELD_MAX, "{most} bytes, over {FULL_HELD_MAX}");
        attacked.serves(HOSTS, "after").await?;
    }
    Ok(())
}

/// A request of an older client in a session, or one that begins a session.
/// One that begins a session names the new protocol in its header, as in its parameters.
fn older(session: Option<&str>, message: &Value) -> String {
    let body = message.to_string();
    let session = session.map_or_else(
        || format!("MCP-Protocol-Version: {BEGUN_AS}\r\n"),
        |id| format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"),
    );
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nAuthorization: Bearer {TOKEN}\r\n{session}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Begins a session and makes a call in it. Returns the session's id.
async fn begin(address: SocketAddr) -> Result<()> {
    let client = json!({"name": "older", "version": "1"});
    let params = json!({"protocolVersion": BEGUN_AS, "capabilities": {}, "clientInfo": client});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let mut connected = TcpStream::connect(address).await?;
    connected.write_all(older(None, &begin).as_bytes()).await?;
    let head = head_of(connected).await?;
    let id = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .with_context(|| format!("no session: {head}"))?;
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let params = json!({"name": "exists", "arguments": {"key": "k"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    for (message, expected) in [(initialized, 202), (call, 200)] {
        let connected = TcpStream::connect(address).await?;
        let (status, answer) = ask(connected, &older(Some(id), &message)).await?;
        ensure!(status == expected, "{status}: {answer}");
    }
    Ok(())
}

async fn head_of(mut connected: TcpStream) -> Result<String> {
    use tokio::io::AsyncReadExt as _;
    let mut answer = String::new();
    connected.read_to_string(&mut answer).await?;
    let (head, _) = answer.split_once("\r\n\r\n").context("no head")?;
    Ok(head.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_older_clients_take_bounded_memory() -> Result<()> {
    let attacked = Attacked::start(&["--legacy-sessions"]).await?;
    for _ in 0..SESSIONS_BEFORE {
        begin(attacked.address).await?;
    }
    let before = resident_bytes(attacked.pid()?)?;
    for _ in 0..SESSIONS {
        begin(attacked.address).await?;
    }
    let grown = resident_bytes(attacked.pid()?)?.saturating_sub(before);
    println!("a session takes {} KiB", (grown / SESSIONS) >> 10);
    ensure!(
        grown / SESSIONS <= SESSION_HELD_MAX,
        "{} bytes for each session",
        grown / SESSIONS
    );
    // Over the share, each takes the memory of one that has gone.
    for _ in 0..SESSIONS {
        begin(attacked.address).await?;
    }
    // The allocator may have given memory back meanwhile.
    let more = resident_bytes(attacked.pid()?)?.saturating_sub(before + grown);
    println!("{SESSIONS} over the share take {} KiB more", more >> 10);
    ensure!(
        more <= SESSIONS * SESSION_HELD_MAX / 4,
        "{more} bytes for sessions over the share"
    );
    Ok(())
}
