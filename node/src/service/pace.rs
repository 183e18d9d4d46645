//! How fast a connection is read whose calls find no room.
//!
//! To refuse a call costs the node much more than it costs the caller to send it. A connection whose calls are all refused for want of
//! room is read slowly, so that the node has time for others.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::budget::Owner;
use crate::limits::{
    LITTLE_READ_BYTES, LITTLE_READ_REST, LITTLE_READS_MAX, REFUSALS_WITHOUT_PAUSE, refusals_pause,
};

/// How the calls of a connection fare. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace(Arc<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// How many in a row found no room.
    refused: AtomicU32,
    /// How many in a row found room.
    let_in: AtomicU32,
    /// The milliseconds of the pause that is due, however few were refused here; 0 if none is.
    owner_pause_ms: AtomicU32,
    /// Rests since a call found no room.
    rests: AtomicU32,
    /// Pauses since as many calls in a row were let in as may be refused without one.
    pauses: AtomicU32,
}

impl Pace {
    /// A call was refused since its owner, or the node, has too many streams. One that is refused over many connections pauses with each:
    /// else it would begin a new one for each few calls.
    pub(super) fn found_no_room(&self, owner: &Owner) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        self.0.let_in.store(0, Ordering::Relaxed);
        self.0.rests.store(0, Ordering::Relaxed);
        if let Some(pause) = owner.pause_for_refusal() {
            let pause_ms = u32::try_from(pause.as_millis()).unwrap_or(u32::MAX);
            self.0.owner_pause_ms.store(pause_ms, Ordering::Relaxed);
        }
    }

    /// A call was let in: another caller behind the same proxy, perhaps. Only many in a row shorten the pauses: a place that others left
    /// goes to one who floods, too.
    pub(super) fn found_room(&self) {
        self.0.refused.store(0, Ordering::Relaxed);
        if self.0.let_in.fetch_add(1, Ordering::Relaxed) >= REFUSALS_WITHOUT_PAUSE {
            self.0.pauses.store(0, Ordering::Relaxed);
        }
    }

    /// The pause that is due, and begins now: twice the one before, unless many calls were let in since.
    fn begins_pause(&self) -> Option<Duration> {
        let many = self.0.refused.load(Ordering::Relaxed) >= REFUSALS_WITHOUT_PAUSE;
        let owner_pause_ms = self.0.owner_pause_ms.swap(0, Ordering::Relaxed);
        if owner_pause_ms == 0 && !many {
            return None;
        }
        self.0.refused.store(0, Ordering::Relaxed);
        let before = self.0.pauses.fetch_add(1, Ordering::Relaxed);
        let owner_pause = Duration::from_millis(owner_pause_ms.into());
        Some(refusals_pause(before).max(owner_pause))
    }

    /// Whether only [`LITTLE_READ_BYTES`] are read at once.
    fn reads_little(&self) -> bool {
        self.0.let_in.load(Ordering::Relaxed) == 0
            && self.0.rests.load(Ordering::Relaxed) < LITTLE_READS_MAX
    }
}

/// A connection that is read at its pace.
pub(super) struct Paced<C> {
    connection: C,
    pace: Pace,
    pause: Option<Pin<Box<Sleep>>>,
    /// Bytes until the next rest, while little is read at once.
    little: usize,
    rest: Option<Pin<Box<Sleep>>>,
}

impl<C> Paced<C> {
    /// Reads this connection at this pace.
    pub(super) fn new(connection: C, pace: Pace) -> Self {
        Self {
            connection,
            pace,
            pause: None,
            little: LITTLE_READ_BYTES,
            rest: None,
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
        if !this.pace.reads_little() {
            this.rest = None;
            return Pin::new(&mut this.connection).poll_read(context, buffer);
        }
        if let Some(rest) = &mut this.rest {
            ready!(rest.as_mut().poll(context));
            this.rest = None;
        }
        let mut little = [0; LITTLE_READ_BYTES];
        let bytes = this.little.min(buffer.remaining());
        let mut little = ReadBuf::new(&mut little[..bytes]);
        let read = Pin::new(&mut this.connection).poll_read(context, &mut little);
        buffer.put_slice(little.filled());
        this.little -= little.filled().len();
        if this.little == 0 {
            this.little = LITTLE_READ_BYTES;
            this.pace.0.rests.fetch_add(1, Ordering::Relaxed);
            this.rest = Some(Box::pin(sleep(LITTLE_READ_REST)));
        }
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

    use super::{super::budget::Budgets, *};
    use crate::{
        bounds::Bounds,
        limits::{REFUSALS_PAUSE, REFUSALS_PAUSE_MAX},
    };

    /// How long a byte takes that is there, by a clock that moves on when all wait.
    async fn read(node: &mut (impl AsyncRead + Unpin)) -> Duration {
        let begun = Instant::now();
        node.read_u8().await.unwrap();
        begun.elapsed()
    }

    /// One whose calls are refused within its bound, however many they are.
    fn calm() -> Arc<Owner> {
        Budgets::new(Bounds::default()).stranger(None)
    }

    fn refuse(pace: &Pace, calls: u32) {
        (0..calls).for_each(|_| pace.found_no_room(&calm()));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_whose_calls_find_no_room_is_read_after_a_pause() {
        let (mut caller, node) = duplex(64);
        caller.write_all(b"abcd").await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        refuse(&pace, REFUSALS_WITHOUT_PAUSE - 1);
        assert!(read(&mut node).await.is_zero());
        refuse(&pace, 1);
        assert!(read(&mut node).await >= REFUSALS_PAUSE);
        assert!(read(&mut node).await.is_zero(), "once for as many refusals");

        refuse(&pace, REFUSALS_WITHOUT_PAUSE - 1);
        pace.found_room();
        refuse(&pace, 1);
        assert!(read(&mut node).await.is_zero(), "one call was let in");
    }

    #[tokio::test(start_paused = true)]
    async fn new_connection_of_one_that_is_refused_often_pauses_with_its_first_refusal() {
        let owner = calm();
        let old = Pace::default();
        (0..REFUSALS_WITHOUT_PAUSE).for_each(|_| old.found_no_room(&owner));

        let (mut caller, node) = duplex(64);
        caller.write_all(b"abcd").await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        assert!(read(&mut node).await.is_zero(), "nothing was refused here");
        pace.found_no_room(&calm());
        assert!(
            read(&mut node).await.is_zero(),
            "another caller was refused"
        );
        pace.found_no_room(&owner);
        assert!(read(&mut node).await >= REFUSALS_PAUSE);
        pace.found_no_room(&owner);
        assert!(read(&mut node).await.is_zero(), "that was long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_their_bound_until_many_calls_are_let_in() {
        let (mut caller, node) = duplex(64);
        caller.write_all(&[0; 64]).await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        let mut refused = async || {
            refuse(&pace, REFUSALS_WITHOUT_PAUSE);
            read(&mut node).await
        };
        let mut pause = REFUSALS_PAUSE;
        for _ in 0..40 {
            assert!(refused().await >= pause);
            pause = (2 * pause).min(REFUSALS_PAUSE_MAX);
            // A place that somebody left.
            pace.found_room();
        }
        assert!(refused().await < 2 * REFUSALS_PAUSE_MAX);
        (0..=REFUSALS_WITHOUT_PAUSE).for_each(|_| pace.found_room());
        assert!(refused().await < 2 * REFUSALS_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_of_new_connections_grows_while_their_owner_is_refused_too_often() {
        let owner = calm();
        let mut pause = REFUSALS_PAUSE;
        for _ in 0..8 {
            for _ in 0..REFUSALS_WITHOUT_PAUSE {
                owner.pause_for_refusal();
            }
            let (mut caller, node) = duplex(64);
            caller.write_all(b"ab").await.unwrap();
            let pace = Pace::default();
            let mut node = Paced::new(node, pace.clone());
            pace.found_no_room(&owner);
            let paused = read(&mut node).await;
            assert!(
                pause <= paused && paused < 2 * pause,
                "{pause:?} {paused:?}"
            );
            pause = (2 * pause).min(REFUSALS_PAUSE_MAX);
        }
        tokio::time::advance(2 * REFUSALS_PAUSE_MAX).await;
        for _ in 0..REFUSALS_WITHOUT_PAUSE {
            assert_eq!(owner.pause_for_refusal(), None);
        }
        let pause = owner.pause_for_refusal();
        assert_eq!(pause, Some(REFUSALS_PAUSE), "it was calm");
    }

    #[tokio::test(start_paused = true)]
    async fn pause_of_an_owner_shrinks_beside_a_trickle_of_refusals() {
        let owner = calm();
        for _ in 0..3 {
            for _ in 0..=REFUSALS_WITHOUT_PAUSE {
                owner.pause_for_refusal();
            }
            tokio::time::advance(REFUSALS_PAUSE).await;
        }
        let begun = Instant::now();
        while begun.elapsed() <= 2 * REFUSALS_PAUSE_MAX {
            assert_eq!(owner.pause_for_refusal(), None);
            tokio::time::advance(REFUSALS_PAUSE).await;
        }
        for _ in 0..REFUSALS_WITHOUT_PAUSE {
            assert_eq!(owner.pause_for_refusal(), None);
        }
        assert_eq!(owner.pause_for_refusal(), Some(REFUSALS_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn little_is_read_at_once_until_a_call_is_let_in() {
        const LITTLE: usize = LITTLE_READ_BYTES;
        let (mut caller, node) = duplex(4 * LITTLE);
        caller.write_all(&[0; 4 * LITTLE]).await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        let mut buffer = [0; 4 * LITTLE];
        // A greeting is read by itself.
        assert_eq!(node.read(&mut buffer[..24]).await.unwrap(), 24);
        let begun = Instant::now();
        assert_eq!(node.read(&mut buffer).await.unwrap(), LITTLE - 24);
        assert!(begun.elapsed().is_zero());
        assert_eq!(node.read(&mut buffer).await.unwrap(), LITTLE);
        assert!(begun.elapsed() >= LITTLE_READ_REST);
        pace.found_room();
        let begun = Instant::now();
        assert_eq!(node.read(&mut buffer).await.unwrap(), 2 * LITTLE);
        assert!(begun.elapsed().is_zero(), "it rests no more");
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_brings_no_more_refusals_rests_no_more() {
        const BYTES: usize = LITTLE_READ_BYTES * (LITTLE_READS_MAX as usize + 8);
        let (mut caller, node) = duplex(BYTES);
        caller.write_all(&vec![0; BYTES]).await.unwrap();
        let pace = Pace::default();
        let mut node = Paced::new(node, pace.clone());
        pace.found_no_room(&calm());
        let mut buffer = vec![0; BYTES];
        for _ in 0..LITTLE_READS_MAX {
            assert_eq!(node.read(&mut buffer).await.unwrap(), LITTLE_READ_BYTES);
        }
        // What is left belongs to a call that is under way.
        let left = 8 * LITTLE_READ_BYTES;
        assert_eq!(node.read(&mut buffer).await.unwrap(), left);
        pace.found_no_room(&calm());
        caller.write_all(&vec![0; BYTES]).await.unwrap();
        assert_eq!(node.read(&mut buffer).await.unwrap(), LITTLE_READ_BYTES);
    }
}
