//! Tests of floods, slow callers and full ports.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use futures::StreamExt;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    task::yield_now,
};
use tokio_rustls::TlsConnector;
use tonic::transport::server::Connected as _;

use super::*;
use crate::{
    limits::CONNECTION_STALL_MAX,
    tls::{
        NamedFile, PortFiles, Trust,
        authority::{Authority, Life},
    },
};

const PATIENCE: Duration = Duration::from_secs(30);

fn bounds(connections: usize, handshakes: usize, greeting: Duration) -> Bounds {
    Bounds {
        port: "a port",
        connections,
        address_connections: connections,
        handshakes,
        greeting,
        port_use: PortUse::default(),
    }
}

/// A port for nodes, and how a node connects to it.
fn peer_tls(directory: &Path) -> (Arc<PortTls>, Arc<ClientConfig>) {
    let life = Life::of(Duration::from_secs(3_600));
    let (authority, ca) = Authority::make("ca", life).unwrap();
    let node = authority
        .node("a", &["localhost".to_owned()], life)
        .unwrap();
    let put = |flag, name: &str, content: &str| {
        let path = directory.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        NamedFile { flag, path }
    };
    let port = PortTls::read(PortFiles {
        certificate: put("--peer-tls-cert", "a.crt", &node.certificate_pem),
        key: put("--peer-tls-key", "a.key", &node.key_pem),
        trust: Trust::Nodes(put("--peer-tls-ca", "ca.crt", &ca.certificate_pem)),
    });
    let port = port.unwrap();
    let dial = port.dial().unwrap();
    (port, dial)
}

/// A port that lets in until the stream is dropped, and its address.
async fn port(
    tls: Option<Arc<PortTls>>,
    bounds: Bounds,
) -> (
    SocketAddr,
    impl Stream<Item = io::Result<Connection>> + Unpin,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, Box::pin(let_in(listener, tls, bounds)))
}

/// Connects from 127.0.0.`last`.
async fn connect_from(last: u8, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::from(([127, 0, 0, last], 0)))
        .unwrap();
    socket.connect(address).await.unwrap()
}

/// Waits until the other side has closed.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    drop(ended.expect("the port closes the connection"));
}

#[tokio::test]
async fn a_full_port_closes_the_newest_at_once_and_has_room_again_when_one_ends() {
    let (address, mut port) = port(None, bounds(1, 1, PATIENCE)).await;
    let _first = TcpStream::connect(address).await.unwrap();
    let held = port.next().await.unwrap().unwrap();
    let refused = TcpStream::connect(address).await.unwrap();
    tokio::select! {
        () = closed(refused) => {}
        _ = port.next() => panic!("let in over the bound"),
    }
    drop(held);
    let _third = TcpStream::connect(address).await.unwrap();
    assert!(port.next().await.unwrap().is_ok());
}

#[tokio::test]
async fn a_full_port_takes_no_place_of_another() {
    let (address, mut clients) = port(None, bounds(1, 1, PATIENCE)).await;
    let _client = TcpStream::connect(address).await.unwrap();
    let _held = clients.next().await.unwrap().unwrap();
    let refused = TcpStream::connect(address).await.unwrap();
    let (address, mut peers) = port(None, bounds(1, 1, PATIENCE)).await;
    tokio::select! {
        () = closed(refused) => {}
        _ = clients.next() => panic!("let in over the bound"),
    }
    let _peer = TcpStream::connect(address).await.unwrap();
    let peer = timeout(PATIENCE, peers.next()).await;
    assert!(peer.is_ok(), "a full client port shuts peers out");
}

#[tokio::test]
async fn silent_handshakes_hold_up_no_honest_one() {
    let directory = tempfile::tempdir().unwrap();
    let (tls, dial) = peer_tls(directory.path());
    let bounds = bounds(1, 4, PATIENCE);
    let port_use = bounds.port_use.clone();
    let (address, mut port) = port(Some(tls), bounds).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let honest = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(dial).connect(name, honest);
    let (connected, let_in) = tokio::join!(connecting, port.next());
    assert!(connected.is_ok(), "{connected:?}");
    let info = let_in.unwrap().unwrap().connect_info();
    assert_eq!(info.certificate.unwrap().common_name, "a");
    assert!(port_use.handshakes.get() > 0, "silent ones are under way");
    // The oldest had to go.
    closed(silent.remove(0)).await;
}

#[tokio::test]
async fn silent_handshakes_of_one_address_break_off_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let (tls, dial) = peer_tls(directory.path());
    let (address, mut port) = port(Some(tls), bounds(1, 4, PATIENCE)).await;
    // It is the oldest, and as slow as a caller far away.
    let honest = connect_from(1, address).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(connect_from(2, address).await);
    }
    tokio::select! {
        () = closed(silent.remove(0)) => {}
        _ = port.next() => panic!("let in without a handshake"),
    }
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(dial).connect(name, honest);
    let (connected, let_in) = tokio::join!(connecting, port.next());
    assert!(connected.is_ok(), "{connected:?}");
    assert!(let_in.unwrap().is_ok());
}

#[tokio::test]
async fn one_address_leaves_places_to_others() {
    let bounds = Bounds {
        address_connections: 3,
        ..bounds(4, 1, PATIENCE)
    };
    let port_use = bounds.port_use.clone();
    let (address, mut port) = port(None, bounds).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push((
            connect_from(2, address).await,
            port.next().await.unwrap().unwrap(),
        ));
    }
    let refused = connect_from(2, address).await;
    tokio::select! {
        () = closed(refused) => {}
        _ = port.next() => panic!("let in over the address's share"),
    }
    let _other = connect_from(1, address).await;
    let _let_in = port.next().await.unwrap().unwrap();
    assert_eq!((port_use.held.get(), port_use.refused.get()), (4, 1));
    held.pop();
    assert_eq!(port_use.held.get(), 3);
    let _again = connect_from(2, address).await;
    assert!(port.next().await.unwrap().is_ok());
}

#[test]
fn address_share_is_below_all_places_but_for_one() {
    assert_eq!([1, 4, 512].map(address_share), [1, 3, 384]);
}

#[tokio::test]
async fn who_does_not_finish_the_handshake_or_the_greeting_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let (tls, _) = peer_tls(directory.path());
    let soon = Duration::from_millis(200);
    let bounds = bounds(8, 8, soon);
    let port_use = bounds.port_use.clone();
    let (address, mut guarded) = port(Some(tls), bounds.clone()).await;
    let silent = TcpStream::connect(address).await.unwrap();
    let counted = async {
        closed(silent).await;
        while port_use.refused.get() == 0 {
            yield_now().await;
        }
    };
    tokio::select! {
        () = counted => {}
        _ = guarded.next() => panic!("let in without a handshake"),
    }
    assert_eq!(port_use.refused.get(), 1);
    let (address, mut plain) = port(None, bounds).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"PRI * HTTP/2.0").await.unwrap();
    let mut connection = plain.next().await.unwrap().unwrap();
    let mut greeting = Vec::new();
    let read = timeout(PATIENCE, connection.read_to_end(&mut greeting)).await;
    let late = read.expect("it does not wait for ever").unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    assert_eq!(greeting, b"PRI * HTTP/2.0");
    assert_eq!(port_use.refused.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_has_greeted_may_be_silent() {
    let (address, mut port) = port(None, bounds(8, 8, Duration::from_secs(5))).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(&[0; 33]).await.unwrap();
    let mut connection = port.next().await.unwrap().unwrap();
    let mut greeting = [0; 33];
    connection.read_exact(&mut greeting).await.unwrap();
    let silent = timeout(PATIENCE, connection.read_u8()).await;
    assert!(silent.is_err(), "cut off: {silent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_caller_takes_nothing_is_closed() {
    let (address, mut port) = port(None, bounds(1, 1, PATIENCE)).await;
    let _caller = TcpStream::connect(address).await.unwrap();
    let mut served = port.next().await.unwrap().unwrap();
    let piece = vec![0; 1 << 20];
    let broken = timeout(10 * CONNECTION_STALL_MAX, async {
        loop {
            if let Err(error) = served.write_all(&piece).await {
                return error.kind();
            }
        }
    });
    assert_eq!(broken.await, Ok(io::ErrorKind::TimedOut));
}
