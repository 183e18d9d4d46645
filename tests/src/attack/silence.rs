//! Connections that are opened and say nothing.

use std::net::SocketAddr;

use futures::{StreamExt as _, stream};
use tokio::net::TcpStream;

use super::pages::connect;

/// Opens connections from an address of loopback, as many at a time as `together`, and keeps those that the kernel gives.
pub async fn connections(
    from: SocketAddr,
    to: SocketAddr,
    count: usize,
    together: usize,
) -> Vec<TcpStream> {
    let opened = stream::iter(0..count).map(|_| connect(from, to, None));
    let opened = opened.buffer_unordered(together);
    opened
        .filter_map(async |connection| connection.ok())
        .collect()
        .await
}
