//! An MCP server over standard input and output: one client, which started the process.

use std::{
    fs::File,
    io::{self, stdin, stdout},
    os::fd::AsFd,
};

use rmcp::{ServerHandler, ServiceExt as _, service::ServerInitializeError};
use tokio::io::AsyncRead;
use tokio_util::sync::CancellationToken;

use crate::wire::{MESSAGE_BYTES_MAX, lines::Lines};

/// Serves until the client closes its end, or `shutdown` is cancelled. Nothing else may write to standard output.
///
/// Every line that wants an answer gets one: a line that does not parse, or is over
/// [`BODY_BYTES_MAX`](crate::serve::BODY_BYTES_MAX), is an error with the id of the line, or `null` where that cannot be known.
///
/// # Errors
/// If the streams fail.
pub async fn serve<S>(server: S, shutdown: CancellationToken) -> io::Result<()>
where
    S: ServerHandler + Clone,
{
    let lines = Lines::new(stream(&stdin())?, stream(&stdout())?, MESSAGE_BYTES_MAX);
    serve_lines(server, lines, shutdown).await
}

/// Serves what these lines ask.
pub(crate) async fn serve_lines<S, R>(
    server: S,
    lines: Lines<R>,
    shutdown: CancellationToken,
) -> io::Result<()>
where
    S: ServerHandler + Clone,
    R: AsyncRead + Unpin + Send + 'static,
{
    loop {
        let served = server
            .clone()
            .serve_with_ct(lines.clone(), shutdown.clone());
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
