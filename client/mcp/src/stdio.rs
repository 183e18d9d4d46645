//! An MCP server over standard input and output: one client, which started the process.

use std::{
    fs::File,
    io::{self, stdin, stdout},
    os::fd::AsFd,
    time::Duration,
};

use helve_http::Shutdown;
use rmcp::{ServerHandler, ServiceExt as _, service::ServerInitializeError};
use tokio::{io::AsyncRead, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::wire::{MESSAGE_BYTES_MAX, lines::Lines};

/// Serves until the client closes its end, or `shutdown` ends. Nothing else may write to standard output.
///
/// Every line that wants an answer gets one: a line that does not parse, or is over
/// [`BODY_BYTES_MAX`](crate::serve::BODY_BYTES_MAX), is an error with the id of the line, or `null` where that cannot be known.
///
/// Once `shutdown` has begun, requests are refused, and those under way have `drain_timeout` to be answered: a call that is cut off
/// may take effect all the same. Subscriptions end once no other request is under way: then this
/// ends `shutdown` itself.
///
/// # Errors
/// If the streams fail.
pub async fn serve<S>(server: S, shutdown: Shutdown, drain_timeout: Duration) -> io::Result<()>
where
    S: ServerHandler + Clone,
{
    let (input, output) = (stream(&stdin())?, stream(&stdout())?);
    let lines = Lines::new(input, output, MESSAGE_BYTES_MAX, shutdown.clone());
    serve_lines(server, lines, shutdown, drain_timeout).await
}

/// Serves what these lines ask. Once `shutdown` has begun and nothing is under way but
/// subscriptions, the lines end, and end `shutdown`, so that rmcp ends the subscriptions.
pub(crate) async fn serve_lines<S, R>(
    server: S,
    lines: Lines<R>,
    shutdown: Shutdown,
    drain_timeout: Duration,
) -> io::Result<()>
where
    S: ServerHandler + Clone,
    R: AsyncRead + Unpin + Send + 'static,
{
    let serving = serve_sessions(server, lines, shutdown.ended());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended,
        () = shutdown.begun() => {}
    }
    if let Ok(ended) = timeout(drain_timeout, &mut serving).await {
        return ended;
    }
    tracing::warn!(after = ?drain_timeout, "requests are still under way: they are cut off");
    shutdown.end();
    serving.await
}

/// Serves one session after the other, until the lines end or `cut` is cancelled.
async fn serve_sessions<S, R>(server: S, lines: Lines<R>, cut: CancellationToken) -> io::Result<()>
where
    S: ServerHandler + Clone,
    R: AsyncRead + Unpin + Send + 'static,
{
    loop {
        let served = server.clone().serve_with_ct(lines.clone(), cut.clone());
        match served.await {
            Ok(running) => return running.waiting().await.map(drop).map_err(io::Error::other),
            // The client left before it said anything, or the process is asked to stop.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                return Ok(());
            }
            // No session began: the client was answered if it asked anything, and may begin one yet.
            Err(
                error @ (ServerInitializeError::ExpectedInitializeRequest(_)
                | ServerInitializeError::InitializeFailed(_)),
            ) => tracing::debug!(%error, "no session begins"),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

/// The stream, without the standard library's buffer before it.
fn stream(stream: &impl AsFd) -> io::Result<tokio::fs::File> {
    let descriptor = stream.as_fd().try_clone_to_owned()?;
    Ok(tokio::fs::File::from_std(File::from(descriptor)))
}
