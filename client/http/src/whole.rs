//! A body that is read whole, in memory that is charged: however it was cut into pieces.
//!
//! A transport makes one piece of each chunk, which keeps the buffer that it was read into. One
//! byte in a chunk of its own would so hold dozens, for a charge of one. Pieces are therefore
//! copied as they come, and dropped.

use std::{fmt, future::poll_fn, pin::pin};

use bytes::Bytes;
use hyper::body::Body;

/// Bytes of one block of a body that is still arriving.
const BLOCK_BYTES: usize = 16 << 10;

/// Why a body was not read whole.
#[derive(Debug)]
pub enum NotWhole<E> {
    /// It has more bytes than it may. The rest is not read.
    TooLarge,
    /// It broke off.
    Broken(E),
}

impl<E: fmt::Display> fmt::Display for NotWhole<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("the body has more bytes than it may"),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for NotWhole<E> {}

/// Reads a body of at most `bytes_max`. Trailers are dropped.
///
/// While the body arrives this holds what has come, and less than 16 KiB more. Once it is whole its
/// bytes are copied together, within one poll: no more bodies than the runtime has threads are in
/// memory twice.
///
/// # Errors
/// If the body is larger, or breaks off.
pub async fn read_whole<B>(body: B, bytes_max: usize) -> Result<Bytes, NotWhole<B::Error>>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut blocks = Blocks::default();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let Ok(data) = frame.map_err(NotWhole::Broken)?.into_data() else {
            continue;
        };
        if data.len() > bytes_max - blocks.bytes {
            return Err(NotWhole::TooLarge);
        }
        if blocks.bytes == 0 && body.is_end_stream() {
            // Most bodies come in one piece. Its buffer may be larger than it is.
            return Ok(Bytes::copy_from_slice(&data));
        }
        blocks.add(&data);
    }
    Ok(blocks.joined())
}

/// What has come of a body.
#[derive(Default)]
struct Blocks {
    /// All but the last are full.
    blocks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Blocks {
    fn add(&mut self, mut data: &[u8]) {
        self.bytes += data.len();
        while !data.is_empty() {
            let is_full = |block: &Vec<u8>| block.len() == BLOCK_BYTES;
            if self.blocks.last().is_none_or(is_full) {
                self.blocks.push(Vec::with_capacity(BLOCK_BYTES));
            }
            let Some(block) = self.blocks.last_mut() else {
                return;
            };
            let (now, rest) = data.split_at(data.len().min(BLOCK_BYTES - block.len()));
            block.extend_from_slice(now);
            data = rest;
        }
    }

    fn joined(self) -> Bytes {
        let mut whole = Vec::with_capacity(self.bytes);
        for block in self.blocks {
            whole.extend_from_slice(&block);
        }
        whole.into()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        convert::Infallible,
        pin::Pin,
        sync::Arc,
        task::{Context, Poll},
    };

    use hyper::body::Frame;

    use super::*;

    /// A piece of a body, whose memory is counted.
    struct Piece {
        bytes: Vec<u8>,
        _counted: Arc<()>,
    }

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    /// A body that comes in these pieces, each once the one before is dropped.
    struct Pieces {
        pieces: VecDeque<Vec<u8>>,
        counted: Arc<()>,
    }

    impl Pieces {
        fn of(whole: &[u8], piece_bytes: usize) -> Self {
            Self {
                pieces: whole.chunks(piece_bytes).map(<[u8]>::to_vec).collect(),
                counted: Arc::default(),
            }
        }
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let held = Arc::strong_count(&self.counted) - 1;
            assert_eq!(held, 0, "pieces that were taken are still held");
            let frame = self.pieces.pop_front().map(|bytes| {
                let counted = Arc::clone(&self.counted);
                let piece = Piece {
                    bytes,
                    _counted: counted,
                };
                Ok(Frame::data(Bytes::from_owner(piece)))
            });
            Poll::Ready(frame)
        }

        fn is_end_stream(&self) -> bool {
            self.pieces.is_empty()
        }
    }

    fn text(bytes: usize) -> Vec<u8> {
        let numbers = (0_u64..).flat_map(u64::to_be_bytes);
        numbers.take(bytes).collect()
    }

    #[tokio::test]
    async fn pieces_are_dropped_as_they_are_taken() {
        for (bytes, piece_bytes) in [
            (0, 1),
            (1, 1),
            (1 << 20, 1),
            (BLOCK_BYTES, BLOCK_BYTES),
            (5 * BLOCK_BYTES + 7, 3 * BLOCK_BYTES + 1),
        ] {
            let sent = text(bytes);
            let whole = read_whole(Pieces::of(&sent, piece_bytes), bytes).await;
            assert_eq!(whole.unwrap(), sent, "{bytes} in pieces of {piece_bytes}");
        }
    }

    #[tokio::test]
    async fn body_over_the_bound_is_refused() {
        for piece_bytes in [1, 100, 101] {
            let refused = read_whole(Pieces::of(&text(101), piece_bytes), 100).await;
            assert!(matches!(refused, Err(NotWhole::TooLarge)), "{refused:?}");
        }
    }

    #[test]
    fn blocks_take_up_little_more_than_what_came() {
        let mut blocks = Blocks::default();
        for byte in text(200_000) {
            blocks.add(&[byte]);
            let held: usize = blocks.blocks.iter().map(Vec::capacity).sum();
            assert!(held < blocks.bytes + BLOCK_BYTES, "{held}");
        }
        assert_eq!(blocks.joined().len(), 200_000);
    }
}
