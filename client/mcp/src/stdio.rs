//! An MCP server over standard input and output: one client, which started the process.

use std::{
    fs::File,
    io::{self, stdin, stdout},
    os::fd::AsFd,
};

use rmcp::{ServerHandler, ServiceExt as _, service::ServerInitializeError};
use tokio_util::sync::CancellationToken;

/// Serves until the client closes its end, or `shutdown` is cancelled. Nothing else may write to standard output.
///
/// # Errors
/// If the client does not speak MCP, or the streams fail.
pub async fn serve<S: ServerHandler>(server: S, shutdown: CancellationToken) -> io::Result<()> {
    let streams = (stream(&stdin())?, stream(&stdout())?);
    let running = match server.serve_with_ct(streams, shutdown).await {
        Ok(running) => running,
        // The client left before it said anything, or the process is asked to stop.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    running.waiting().await.map(drop).map_err(io::Error::other)
}

/// The stream, without the standard library's buffer before it.
fn stream(stream: &impl AsFd) -> io::Result<tokio::fs::File> {
    let descriptor = stream.as_fd().try_clone_to_owned()?;
    Ok(tokio::fs::File::from_std(File::from(descriptor)))
}
