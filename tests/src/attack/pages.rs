//! Pages of the HTTP port that are asked for and not read.

use std::net::SocketAddr;

use anyhow::Result;
use socket2::{Domain, Socket, Type};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

/// Bytes that an attacker's socket takes in: the kernel rounds it up to its own least.
const RECEIVE_BYTES: usize = 1;

/// Asks for a page over and over on as many connections from an address of loopback, and reads nothing.
///
/// # Errors
///
/// If a connection is refused by the kernel.
pub async fn unread(
    from: SocketAddr,
    port: SocketAddr,
    page: &str,
    connections: usize,
    requests: usize,
) -> Result<Vec<TcpStream>> {
    let request = format!("GET {page} HTTP/1.1\r\nHost: {port}\r\n\r\n").repeat(requests);
    let mut held = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut connection = connect(from, port, Some(RECEIVE_BYTES)).await?;
        // A listener may have closed it already: that is its right.
        if connection.write_all(request.as_bytes()).await.is_ok() {
            held.push(connection);
        }
    }
    Ok(held)
}

/// A connection from an address of loopback, with a receive buffer of this size if one is named.
pub(super) async fn connect(
    from: SocketAddr,
    to: SocketAddr,
    receive_bytes: Option<usize>,
) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(&from.into())?;
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    Ok(socket.connect(to).await?)
}
