//! Answers on their way, each with the call that it holds.
//!
//! `rmcp` runs a request on when its caller goes away, and would send its answer to whichever later
//! request of the session has its id. So the rest of such an answer is read here, and the id stays
//! in use until the answer is there.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    response::Response,
};
use futures::{Stream, StreamExt as _};
use tokio::runtime::Handle;

use super::copies::Call;
use crate::wire::{content_type::is_type, sse::is_answer};

/// The same answer, which keeps its call under way until the answer has gone out.
pub(super) fn held_until_answered(response: Response, mut call: Call) -> Response {
    if !is_type(response.headers(), "text/event-stream") {
        // `rmcp` answers each request that it begins with a stream.
        call.answered();
    }
    response.map(|body| {
        let frames = body.into_data_stream();
        Body::from_stream(Held(Some((frames, call))))
    })
}

/// What is left of an answer, and its call.
struct Held(Option<(BodyDataStream, Call)>);

impl Stream for Held {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some((frames, call)) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let frame = ready!(frames.poll_next_unpin(context));
        match &frame {
            Some(frame) => note(call, frame),
            None => self.0 = None,
        }
        Poll::Ready(frame)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some((mut frames, mut call)) = self.0.take() else {
            return;
        };
        if !call.is_pending() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            while call.is_pending() {
                let Some(frame) = frames.next().await else {
                    return;
                };
                note(&mut call, &frame);
            }
        });
    }
}

/// Takes note of the answer. Each frame of `rmcp`'s streams is one event, whose data is one message
/// on one line.
fn note(call: &mut Call, frame: &Result<Bytes, axum::Error>) {
    let Ok(event) = frame else {
        return;
    };
    let mut lines = event.split(|byte| *byte == b'\n');
    let data = lines.find_map(|line| line.strip_prefix(b"data:"));
    if data.is_some_and(is_answer) {
        call.answered();
    }
}
