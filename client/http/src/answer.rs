//! The body of an answer on its way to a caller.
//!
//! The transport is given a piece at a time, and asks for the next one when the caller has made room. So a
//! large answer waits here, where its bytes are counted, and not in the transport's buffer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::body::Body as AxumBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::{
    connection_state::ConnectionState,
    outstanding::Counted,
    pool::{Place, Rank},
    site::Site,
    traffic::{Bound, Streaming},
};

/// Bytes of an answer that go to the transport at a time.
const PIECE_BYTES: usize = 16 << 10;

/// An answer's body.
pub(crate) struct Answer {
    body: AxumBody,
    rest: Bytes,
    /// What the rest holds of the room for answers.
    place: Option<Place>,
    site: Arc<Site>,
    line: Arc<ConnectionState>,
    /// Present if the answer streams without an end.
    _endless: Option<(Counted, Streaming)>,
}

impl Answer {
    pub(crate) fn new(
        body: AxumBody,
        site: Arc<Site>,
        line: Arc<ConnectionState>,
        endless: Option<(Counted, Streaming)>,
    ) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            place: None,
            site,
            line,
            _endless: endless,
        }
    }

    /// Claims room for what does not go out at once. An answer that finds none is cut off: its caller does not
    /// read, or others who do not fill the room.
    fn hold(&mut self) -> Result<(), axum::Error> {
        if self.rest.len() <= PIECE_BYTES {
            return Ok(());
        }
        let evict = Arc::clone(self.line.answer_lost());
        let place = self.site.answers.enter(self.line.address(), evict);
        place.wait(Rank::First);
        place.claim(self.rest.len()).map_err(|_| {
            self.site
                .gives_up(self.line.from, Bound::AnswerBytes, NO_ROOM);
            axum::Error::new(NO_ROOM)
        })?;
        self.place = Some(place);
        Ok(())
    }
}

/// Why an answer is cut off.
pub(crate) const NO_ROOM: &str = "unread answers filled the room for answers";

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            self.place = None;
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
            self.hold()?;
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let mut hint = self.body.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.line.answered();
    }
}
