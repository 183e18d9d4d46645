//! Connections that take places of TLS handshakes, or of the HTTP port, and whose first message is
//! never whole.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use helve_node::limits::HANDSHAKES_MAX;
use helve_tests::{
    address::Listeners,
    attack::silence::{Slow, beginnings},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::AsyncReadExt as _,
    time::{interval, timeout},
};

use crate::attacks::{Target, attacker};

/// Addresses that flood a port, and the connections of each: together more than the handshakes that
/// a port may have under way.
const FLOODING: [u8; 4] = [2, 3, 4, 5];
const CONNECTIONS: usize = HANDSHAKES_MAX / FLOODING.len() + 50;
/// Connections that are begun at once.
const TOGETHER: usize = 64;
/// Ports whose floods are held together.
const FLOODS_HELD: usize = 3;
/// The address of those who send a byte at a time. It has fewer connections than those that flood,
/// so that the handshake's time ends its connections, and not another connection.
const SLOW: u8 = 6;
/// Slow connections to each port.
const SLOW_EACH: usize = 16;
/// Between two bytes.
const PAUSE: Duration = Duration::from_millis(100);
/// How long an attacker waits for a connection, and for all of one address to a port.
const CONNECT: Duration = Duration::from_millis(500);
const ROUND: Duration = Duration::from_secs(2);
/// How often a port is greeted before it counts as one that takes no handshake: a busy node may be
/// late.
const GREETINGS: usize = 5;
/// How a TLS record of a handshake begins (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;
/// Open files of this process that are not the floods'.
const FILES_OTHERS: usize = 1_000;

/// The head of a request that is never whole.
const HEAD: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: helve\r\nX-Padding: \
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// The ports of all nodes, each with the first bytes that it waits for.
fn ports<'a>(nodes: &[Listeners], hello: &'a [u8]) -> Vec<(SocketAddr, &'a [u8])> {
    let client = nodes.iter().map(|node| (node.client, hello));
    let peer = nodes.iter().map(|node| (node.peer, hello));
    // It is plain text on loopback, whether nodes have certificates or not.
    let http = nodes.iter().map(|node| (node.http, HEAD));
    client.chain(peer).chain(http).collect()
}

/// Silent connections, handshakes that stop after the node's answer or in the first message, and
/// slow ones, from several addresses.
pub(crate) async fn unfinished(target: Target, time: Duration) -> Result<String> {
    let hello = target.hello.as_deref();
    let hello = hello.context("the nodes of this attack have certificates")?;
    allow_files()?;
    for node in &target.nodes {
        for port in [node.client, node.peer] {
            let mut goes_on_now = goes_on(port, hello).await;
            for _ in 1..GREETINGS {
                if goes_on_now.is_err() {
                    goes_on_now = goes_on(port, hello).await;
                }
            }
            goes_on_now?;
        }
    }
    let ports = ports(&target.nodes, hello);
    let (opened, (begun, ended)) = tokio::try_join!(flood(&ports, time), slow(&ports, time))?;
    Ok(format!(
        "{opened} connections that stopped, {begun} slow ones, of which {ended} were closed"
    ))
}

/// Fails if a port does not go on with a handshake that begins like this: it would have no place.
async fn goes_on(port: SocketAddr, hello: &[u8]) -> Result<()> {
    let mut connections = beginnings(attacker(SLOW), port, hello, (1, 1)).await;
    let connection = connections.first_mut();
    let connection = connection.with_context(|| format!("{port} takes no connection"))?;
    let answer = connection.read_u8().await?;
    ensure!(
        answer == HANDSHAKE,
        "{port} answers a handshake with a record of kind {answer}"
    );
    Ok(())
}

/// Raises this process's limit of open files to what the floods take.
fn allow_files() -> Result<()> {
    let needed = (FLOODS_HELD + 1) * FLOODING.len() * CONNECTIONS + FILES_OTHERS;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?;
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    ensure!(
        files >= u64::try_from(needed)?,
        "the attack opens {needed} files, and {files} are allowed: raise the limit (`ulimit -Hn`)"
    );
    Ok(())
}

/// Fills the places of one port after the other. Returns how many connections were opened.
async fn flood(ports: &[(SocketAddr, &[u8])], time: Duration) -> Result<usize> {
    let begun = Instant::now();
    let mut held = Vec::new();
    let mut opened = 0;
    for (port, bytes) in ports.iter().cycle() {
        if begun.elapsed() >= time {
            break;
        }
        let mut connections = Vec::new();
        for (turn, from) in FLOODING.into_iter().enumerate() {
            // Nothing, a part of the first message, and all of it.
            let sent = [0, bytes.len() / 2, bytes.len()][turn % 3];
            let how_many = (CONNECTIONS, TOGETHER);
            let begins = beginnings(attacker(from), *port, &bytes[..sent], how_many);
            // A port that takes none at this time has all that it can.
            connections.extend(timeout(ROUND, begins).await.unwrap_or_default());
        }
        opened += connections.len();
        held.push(connections);
        held.drain(..held.len().saturating_sub(FLOODS_HELD));
        // The kernel may refuse all at once.
        tokio::task::yield_now().await;
    }
    Ok(opened)
}

/// Holds connections to each port on which a byte comes at a time, and opens others for those that
/// are closed. Returns how many were opened, and how many of them were closed.
async fn slow(ports: &[(SocketAddr, &[u8])], time: Duration) -> Result<(usize, usize)> {
    let begun = Instant::now();
    let (mut opened, mut closed) = (0, 0);
    let mut held: Vec<Vec<Slow>> = ports.iter().map(|_| Vec::new()).collect();
    let mut pauses = interval(PAUSE);
    while begun.elapsed() < time {
        pauses.tick().await;
        for ((port, bytes), slow) in ports.iter().zip(&mut held) {
            let before = slow.len();
            slow.retain_mut(|connection| connection.go_on(bytes));
            closed += before - slow.len();
            for _ in slow.len()..SLOW_EACH {
                // The kernel may have no room for one, or the port may refuse it.
                let connects = timeout(CONNECT, Slow::connect(attacker(SLOW), *port));
                if let Ok(Ok(connection)) = connects.await {
                    slow.push(connection);
                    opened += 1;
                }
            }
        }
    }
    Ok((opened, closed))
}
