//! How fast a connection is read whose calls find no room.
//!
//! To refuse a call costs the node much more than it costs the caller to send it. A connection whose calls are all refused for want of
//! room is read slowly, so that the node has time for others.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::limits::{REFUSALS_PAUSE, REFUSALS_PAUSE_MAX, REFUSALS_WITHOUT_PAUSE};

/// Bytes that are read at once before a call was let in: those of a few dozen calls without a message.
const LITTLE_BYTES: usize = 2 << 10;

/// How the calls of a connection fare. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace(Arc<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// How many in a row found no room.
    refused: AtomicU32,
    /// The last one that asked for room found it.
    let_in: AtomicBool,
    /// Pauses since a call was let in.
    pauses: AtomicU32,
}

impl Pace {
    /// A call was refused since its caller, or the node, has too many streams.
    pub(super) fn found_no_room(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        self.0.let_in.store(false, Ordering::Relaxed);
    }

    /// A call was let in: another caller behind the same proxy, perhaps.
    pub(super) fn found_room(&self) {
        self.0.refused.store(0, Ordering::Relaxed);
        self.0.let_in.store(true, Ordering::Relaxed);
        self.0.pauses.store(0, Ordering::Relaxed);
    }

    /// The pause that is due, and begins now: twice the one before, unless a call was let in since.
    fn begins_pause(&self) -> Option<Duration> {
        if self.0.refused.load(Ordering::Relaxed) < REFUSALS_WITHOUT_PAUSE {
            return None;
        }
        self.0.refused.store(0, Ordering::Relaxed);
        let before = self.0.pauses.fetch_add(1, Ordering::Relaxed);
        let pause = REFUSALS_PAUSE.saturating_mul(1_u32.checked_shl(before).unwrap_or(u32::MAX));
        Some(pause.min(REFUSALS_PAUSE_MAX))
    }

    /// Whether little is read at once: the transport would take up a thousand calls before the first is refused.
    fn reads_little(&self) -> bool {
        !self.0.let_in.load(Ordering::Relaxed)
    }
}

/// A connection that is read at its pace.
pub(super) struct Paced<C> {
    connection: C,
    pace: Pace,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<C> Paced<C> {
    /// Reads this connection at this pace.
    pub(super) fn new(connection: C, pace: Pace) -> Self {
        Self {
            connection,
            pace,
            pause: None,
        }
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Paced<C> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pause.is_none() {
            let pause = this.pace.begins_pause();
            this.pause = pause.map(|pause| Box::pin(sleep(pause)));
        }
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(context));
            this.pause = None;
        }
        if !this.pace.reads_little() || buffer.remaining() <= LITTLE_BYTES {
            return Pin::new(&mut this.connection).poll_read(context, buffer);
        }
        let mut little = [0; LITTLE_BYTES];
        let mut little = ReadBuf::new(&mut little);
        let read = Pin::new(&mut this.connection).poll_read(context, &mut little);
        buffer.put_slice(little.filled());
        read
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Paced<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::Instant,
    };

    use super::*;

    /// How long a byte takes that is there, by a clock that moves on when all wait.
    async fn read(node: &mut (impl AsyncRead + Unpin)) -> Duration {
        let begun = Instant::now();
        node.read_u8().await.unwrap();
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn connection_whose_calls_find_no_room_is_read_after_a_pause() {
        let (mut caller, node) = duplex(64);
        caller.write_all(b"abcd").await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        (1..REFUSALS_WITHOUT_PAUSE).for_each(|_| pace.found_no_room());
        assert!(read(&mut node).await.is_zero());
        pace.found_no_room();
        assert!(read(&mut node).await >= REFUSALS_PAUSE);
        assert!(read(&mut node).await.is_zero(), "once for as many refusals");

        (1..REFUSALS_WITHOUT_PAUSE).for_each(|_| pace.found_no_room());
        pace.found_room();
        pace.found_no_room();
        assert!(read(&mut node).await.is_zero(), "one call was let in");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_their_bound_until_a_call_is_let_in() {
        let (mut caller, node) = duplex(64);
        caller.write_all(&[0; 64]).await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        let mut refused = async || {
            (0..REFUSALS_WITHOUT_PAUSE).for_each(|_| pace.found_no_room());
            read(&mut node).await
        };
        let mut pause = REFUSALS_PAUSE;
        for _ in 0..40 {
            assert!(refused().await >= pause);
            pause = (2 * pause).min(REFUSALS_PAUSE_MAX);
        }
        assert!(refused().await < 2 * REFUSALS_PAUSE_MAX);
        pace.found_room();
        assert!(refused().await < 2 * REFUSALS_PAUSE);
    }

    #[tokio::test]
    async fn little_is_read_at_once_until_a_call_is_let_in() {
        let (mut caller, node) = duplex(4 * LITTLE_BYTES);
        caller.write_all(&[0; 4 * LITTLE_BYTES]).await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        let mut buffer = [0; 4 * LITTLE_BYTES];
        assert_eq!(node.read(&mut buffer).await.unwrap(), LITTLE_BYTES);
        pace.found_room();
        assert_eq!(node.read(&mut buffer).await.unwrap(), 3 * LITTLE_BYTES);
    }
}
