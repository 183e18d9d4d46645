//! Connections that are opened and say nothing, or only the beginning of what a port waits for.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use anyhow::{Result, bail};
use futures::{StreamExt as _, stream};
use helve_client::Tls;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::pages::connect;
use crate::caller::Caller;

/// Bytes of the head of a TLS record, which ends with the length of the rest (RFC 8446, 5.1).
const RECORD_HEAD_BYTES: usize = 5;

/// Opens connections from an address of loopback, as many at a time as `together`, and keeps those
/// that the kernel gives.
pub async fn connections(
    from: SocketAddr,
    to: SocketAddr,
    count: usize,
    together: usize,
) -> Vec<TcpStream> {
    beginnings(from, to, &[], (count, together)).await
}

/// The same, and sends these bytes on each of them.
pub async fn beginnings(
    from: SocketAddr,
    to: SocketAddr,
    bytes: &[u8],
    (count, together): (usize, usize),
) -> Vec<TcpStream> {
    let opened = stream::iter(0..count).map(|_| async move {
        let mut connection = connect(from, to, None).await?;
        connection.write_all(bytes).await?;
        anyhow::Ok(connection)
    });
    let opened = opened.buffer_unordered(together);
    opened
        .filter_map(async |connection| connection.ok())
        .collect()
        .await
}

/// The first record of a TLS handshake, as the client crate sends it. A node answers it with its
/// certificate, and waits for the rest of the handshake.
///
/// # Errors
///
/// If no handshake begins.
pub async fn client_hello(tls: &Tls) -> Result<Vec<u8>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let caller = Caller::over(listener.local_addr()?, tls)?;
    let heard = async {
        let (mut connection, _) = listener.accept().await?;
        let mut hello = vec![0; RECORD_HEAD_BYTES];
        connection.read_exact(&mut hello).await?;
        let length = u16::from_be_bytes([hello[3], hello[4]]);
        hello.resize(RECORD_HEAD_BYTES + usize::from(length), 0);
        connection
            .read_exact(&mut hello[RECORD_HEAD_BYTES..])
            .await?;
        anyhow::Ok(hello)
    };
    tokio::select! {
        hello = heard => hello,
        answer = caller.status() => bail!("nothing answers this caller: {answer:?}"),
    }
}

/// A connection on which bytes come one at a time, and never the last one.
#[derive(Debug)]
pub struct Slow {
    connection: TcpStream,
    sent: usize,
}

impl Slow {
    /// Connects from an address of loopback.
    ///
    /// # Errors
    ///
    /// If a connection is refused by the kernel.
    pub async fn connect(from: SocketAddr, to: SocketAddr) -> Result<Self> {
        Ok(Self {
            connection: connect(from, to, None).await?,
            sent: 0,
        })
    }

    /// Sends the next of these bytes, but for the last. Returns whether the other end has left the
    /// connection open.
    pub fn go_on(&mut self, bytes: &[u8]) -> bool {
        let mut heard = [0; 256];
        // A port may answer part of what came. Nothing more to read is the end.
        match self.connection.try_read(&mut heard) {
            Ok(0) => return false,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return false,
            Ok(_) | Err(_) => {}
        }
        if self.sent + 1 >= bytes.len() {
            return true;
        }
        match self.connection.try_write(&bytes[self.sent..=self.sent]) {
            Ok(sent) => self.sent += sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        true
    }
}
