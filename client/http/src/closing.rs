//! Closing a connection so that the last answer on it arrives.
//!
//! A socket that is closed while bytes of the caller are unread resets the connection, and the reset
//! overtakes the answer. So the caller is told that no more comes, and what it still sends is read and
//! dropped for a while.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

/// How long and how much is read of a caller whose connection is closed.
const LAST_TIME_MAX: Duration = Duration::from_secs(1);
const LAST_BYTES_MAX: u64 = 1 << 20;

/// Writes the last bytes, if any, and closes.
pub(crate) async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin, last: &[u8]) {
    let closing = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut rest = stream.take(LAST_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // The caller may have gone, which is as good.
    if let Ok(Err(error)) = timeout(LAST_TIME_MAX, closing).await {
        tracing::trace!(%error, "a connection was not closed in order");
    }
}

/// Closes a connection whose caller has said all and heard all.
pub(crate) async fn close_quietly(mut stream: impl AsyncWrite + Unpin) {
    if let Ok(Err(error)) = timeout(LAST_TIME_MAX, stream.shutdown()).await {
        tracing::trace!(%error, "a connection was not closed in order");
    }
}
