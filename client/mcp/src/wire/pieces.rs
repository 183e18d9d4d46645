//! A body in pieces of one byte, for tests of what reads it whole.

use std::{convert::Infallible, sync::Arc};

use axum::body::{Body, Bytes};
use futures::{StreamExt as _, stream};

/// A piece, whose memory is counted.
struct Piece {
    byte: [u8; 1],
    _counted: Arc<()>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.byte
    }
}

/// The body. Its reader must have dropped each piece before it takes the next.
pub(crate) fn pieces(whole: impl Into<Vec<u8>>) -> Body {
    let counted = Arc::<()>::default();
    let pieces = stream::iter(whole.into()).map(move |byte| {
        let held = Arc::strong_count(&counted) - 1;
        assert_eq!(held, 0, "pieces that were taken are still held");
        let piece = Piece {
            byte: [byte],
            _counted: Arc::clone(&counted),
        };
        Ok::<_, Infallible>(Bytes::from_owner(piece))
    });
    Body::from_stream(pieces)
}
