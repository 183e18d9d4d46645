//! Bytes that are no protocol at all, on every port.

use std::net::SocketAddr;

use anyhow::Result;
use helve_tests::{ledger::Ledger, wait::PATIENCE};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::nodes;

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What to send: noise, other protocols, and beginnings of ours.
fn garbage() -> Vec<Vec<u8>> {
    // A fixed sequence without a pattern that a parser could take for sense.
    let noise = (0..64 * 1024_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]);
    vec![
        Vec::new(),
        vec![0],
        noise.clone().collect(),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
        b"POST /helve.v1.HandleService/Mint HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec(),
        [b"GET /".as_slice(), &vec![b'a'; 256 * 1024], b" HTTP/1.1\r\n\r\n"].concat(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        HTTP2_PREFACE.to_vec(),
        [HTTP2_PREFACE, &[0xff; 1024]].concat(),
        [HTTP2_PREFACE, &noise.collect::<Vec<_>>()].concat(),
    ]
}

/// Sends the bytes, and reads until the node hangs up or says something. The node may hang up at any point.
async fn send(address: SocketAddr, bytes: &[u8]) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    if stream.write_all(bytes).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut answer = [0; 4096];
        // Whatever comes back, an end or an error: it must come.
        drop(timeout(PATIENCE, stream.read(&mut answer)).await?);
    }
    Ok(())
}

#[tokio::test]
async fn garbage_on_any_port_leaves_the_node_serving() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    let ports = cluster.listeners(1);
    for address in [ports.client, ports.peer, ports.http] {
        for bytes in garbage() {
            send(address, &bytes).await?;
        }
    }
    cluster.node_mut(1).assert_running()?;
    ledger.mint(&[cluster.caller(1)]).await?;
    ledger.check(&cluster).await
}
