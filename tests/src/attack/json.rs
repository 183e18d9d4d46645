//! Bodies of JSON over HTTP/1.1 that make much of little, or never end.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;
use futures::future::join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::pages::connect;

/// How long a body may take to go out: a node that keeps it waiting keeps nothing of it.
const SENDING: Duration = Duration::from_secs(2);

/// A text of many small values, none of which the call takes.
#[must_use]
pub fn tiny(bytes: usize) -> String {
    format!(r#"{{"items":[{}{{}}]}}"#, "{},".repeat(bytes / 3))
}

/// Posts a body on as many connections at once from an address of loopback. How many were answered; those of bodies that are
/// shorter than they say are held until they end.
///
/// # Errors
///
/// If a connection is refused by the kernel.
pub async fn post(
    from: SocketAddr,
    port: SocketAddr,
    (token, body, missing): (&str, &str, usize),
    connections: usize,
) -> Result<usize> {
    let head = format!(
        "POST /helve.v1.StateService/BatchStore HTTP/1.1\r\nHost: {port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        body.len() + missing
    );
    let post = async || {
        let mut connection = connect(from, port, None).await?;
        let sent = timeout(SENDING, async {
            connection.write_all(head.as_bytes()).await?;
            connection.write_all(body.as_bytes()).await
        });
        // A node may refuse it before it has all of it.
        let _refused = sent.await;
        let mut answer = [0; 12];
        let answered = timeout(SENDING, connection.read_exact(&mut answer)).await;
        Ok(matches!(answered, Ok(Ok(_))))
    };
    let answered: Vec<Result<bool>> = join_all((0..connections).map(|_| post())).await;
    let answered: Result<Vec<bool>> = answered.into_iter().collect();
    Ok(answered?.into_iter().filter(|answered| *answered).count())
}
