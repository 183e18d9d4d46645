//! How a request's messages come in: each whole within a time, and all that are on their way within a bound of bytes.
//!
//! A message that has arrived counts towards what is under way (`admit.rs`). Until then its bytes lie in the transport's buffer, where
//! many callers that begin much and end nothing could fill the memory.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::http::Request;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep_until},
};
use tonic::{Status, body::Body};

use super::failure::Failure;
use crate::limits::{ARRIVING_BYTES_MAX, MESSAGE_TIME_MAX};

/// The calls whose callers send messages for as long as they like: only a message that has begun must come to its end.
const STREAMS: [&str; 3] = [
    "/helve.v1.CallService/Exchange",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// What is awaited of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One message, and then the end.
    Call,
    /// Messages for as long as the caller likes.
    Stream,
}

/// Room for messages that are on their way. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Harbour(Arc<Semaphore>);

impl Default for Harbour {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ARRIVING_BYTES_MAX)))
    }
}

impl Harbour {
    /// The request, whose messages have to come in in time and within the bound.
    pub(super) fn watch(&self, request: Request<Body>) -> Request<Arriving> {
        let (kind, due) = if STREAMS.contains(&request.uri().path()) {
            (Kind::Stream, None)
        } else {
            (Kind::Call, Some(Instant::now() + MESSAGE_TIME_MAX))
        };
        request.map(|body| Arriving {
            body,
            kind,
            boundary: Boundary::default(),
            due,
            timer: None,
            room: Arc::clone(&self.0),
            taken: None,
        })
    }
}

/// A request's body on its way.
pub struct Arriving {
    body: Body,
    kind: Kind,
    boundary: Boundary,
    /// When the message, or the end, must have come; absent while neither has to.
    due: Option<Instant>,
    /// Made when there is something to wait for: most requests come in one piece.
    timer: Option<Pin<Box<Sleep>>>,
    room: Arc<Semaphore>,
    /// What the message that has begun takes of the room.
    taken: Option<OwnedSemaphorePermit>,
}

impl Arriving {
    /// Takes note of bytes that have come.
    fn note(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let was_between = self.boundary.is_between();
        self.boundary.advance(bytes);
        if self.boundary.is_between() {
            self.taken = None;
            if self.kind == Kind::Stream {
                (self.due, self.timer) = (None, None);
            }
            return Ok(());
        }
        if was_between {
            self.due
                .get_or_insert_with(|| Instant::now() + MESSAGE_TIME_MAX);
        }
        let count = u32::try_from(bytes.len()).map_err(|_| Failure::Overloaded)?;
        let more = Arc::clone(&self.room).try_acquire_many_owned(count);
        let more = more.map_err(|_| Failure::Overloaded)?;
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// Ready when the message is late.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = self.due else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        timer.as_mut().poll(context)
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let refused = |failure: Failure| Some(Err(failure.into()));
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            ready!(self.poll_late(context));
            return Poll::Ready(refused(Failure::TooSlow));
        };
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
            && let Err(failure) = self.note(bytes)
        {
            return Poll::Ready(refused(failure));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Where messages end. A message is a prefix and as many bytes as that says
/// (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
#[derive(Debug, Default)]
struct Boundary {
    prefix: [u8; PREFIX_BYTES],
    /// How many bytes of the prefix have come.
    came: usize,
    /// How many of the message have not.
    left: usize,
}

impl Boundary {
    /// Whether no message has begun that has not ended.
    fn is_between(&self) -> bool {
        self.came == 0
    }

    fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let missing = PREFIX_BYTES - self.came;
            if missing > 0 {
                let (now, rest) = bytes.split_at(missing.min(bytes.len()));
                self.prefix[self.came..][..now.len()].copy_from_slice(now);
                self.came += now.len();
                bytes = rest;
                if self.came == PREFIX_BYTES {
                    let [_, a, b, c, d] = self.prefix;
                    self.left = u32::from_be_bytes([a, b, c, d]) as usize;
                }
            }
            let skipped = self.left.min(bytes.len());
            (self.left, bytes) = (self.left - skipped, &bytes[skipped..]);
            if self.came == PREFIX_BYTES && self.left == 0 {
                self.came = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, stream};
    use proptest::{collection::vec, prelude::*};
    use tonic::Code;

    use super::*;
    use crate::properties::check;

    const UNARY: &str = "/helve.v1.HandleService/Mint";

    fn message(bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes).unwrap().to_be_bytes();
        [&[0][..], &length, &vec![7; bytes]].concat()
    }

    /// These pieces, and then nothing, but no end either.
    fn endless(path: &str, pieces: Vec<Vec<u8>>) -> Request<Body> {
        let pieces = pieces.into_iter().map(Ok::<_, Infallible>);
        let body = axum::body::Body::from_stream(stream::iter(pieces).chain(stream::pending()));
        request(path, body)
    }

    fn request(path: &str, body: axum::body::Body) -> Request<Body> {
        Request::builder().uri(path).body(Body::new(body)).unwrap()
    }

    /// Reads until an error; the code of that, and how much came before.
    async fn read(request: Request<Arriving>) -> (Option<Code>, usize) {
        let mut frames = axum::body::Body::new(request.into_body()).into_data_stream();
        let mut count = 0;
        while let Some(frame) = frames.next().await {
            match frame {
                Ok(bytes) => count += bytes.len(),
                Err(error) => return (Some(Status::from_error(error.into()).code()), count),
            }
        }
        (None, count)
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_trickles_is_given_up() {
        let harbour = Harbour::default();
        let begun = message(100);
        for (path, pieces) in [
            (UNARY, vec![]),
            (UNARY, vec![begun[..50].to_vec()]),
            (UNARY, vec![begun[..3].to_vec()]),
            // Whole, but the caller does not say that this was all.
            (UNARY, vec![message(9)]),
            (STREAMS[0], vec![message(9), begun[..50].to_vec()]),
        ] {
            let sent = pieces.iter().map(Vec::len).sum();
            let began = Instant::now();
            let read = read(harbour.watch(endless(path, pieces))).await;
            assert_eq!(read, (Some(Code::DeadlineExceeded), sent), "{path}");
            assert_eq!(began.elapsed().as_secs(), MESSAGE_TIME_MAX.as_secs());
        }
        assert_eq!(harbour.0.available_permits(), ARRIVING_BYTES_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_may_be_silent_between_messages() {
        let harbour = Harbour::default();
        for pieces in [vec![], vec![message(0), message(10)]] {
            let read = read(harbour.watch(endless(STREAMS[0], pieces)));
            let long = tokio::time::timeout(100 * MESSAGE_TIME_MAX, read).await;
            assert!(long.is_err(), "the stream ended");
        }
    }

    #[tokio::test]
    async fn messages_on_their_way_are_bounded_in_bytes_and_give_their_room_back() {
        let harbour = Harbour::default();
        let rest = 1_000;
        let held = Arc::clone(&harbour.0);
        let held = held.try_acquire_many_owned(u32::try_from(ARRIVING_BYTES_MAX - rest).unwrap());
        let begun = || vec![message(rest)[..rest].to_vec(), message(rest)[..1].to_vec()];
        let (code, sent) = read(harbour.watch(endless(UNARY, begun()))).await;
        assert_eq!((code, sent), (Some(Code::ResourceExhausted), rest));
        // In one piece it waits nowhere.
        let whole = request(UNARY, message(2 * rest).into());
        assert_eq!(read(harbour.watch(whole)).await.0, None);
        drop(held);
        assert_eq!(harbour.0.available_permits(), ARRIVING_BYTES_MAX);
    }

    #[test]
    fn the_calls_that_stream_are_those_of_the_contract() {
        let set =
            <prost_types::FileDescriptorSet as prost::Message>::decode(helve_proto::DESCRIPTORS);
        let mut streams = Vec::new();
        for file in set.unwrap().file {
            for service in &file.service {
                let name = format!("/{}.{}", file.package(), service.name());
                let methods = service.method.iter().filter(|m| m.client_streaming());
                streams.extend(methods.map(|m| format!("{name}/{}", m.name())));
            }
        }
        let public = streams.iter().filter(|path| path.starts_with("/helve.v1."));
        assert_eq!(public.collect::<Vec<_>>(), [STREAMS[0]]);
    }

    #[test]
    fn the_ends_of_messages_that_a_client_makes_up_are_found_however_they_are_cut() {
        let messages = vec(0..40_usize, 1..6);
        check(&(messages, vec(1..9_usize, 1..9)), |(messages, cuts)| {
            let all: Vec<u8> = messages.iter().flat_map(|bytes| message(*bytes)).collect();
            let ends: Vec<usize> = messages
                .iter()
                .scan(0, |end, bytes| {
                    *end += PREFIX_BYTES + bytes;
                    Some(*end)
                })
                .collect();
            let (mut boundary, mut at) = (Boundary::default(), 0);
            for cut in cuts.iter().cycle() {
                let next = (at + cut).min(all.len());
                boundary.advance(&all[at..next]);
                at = next;
                prop_assert_eq!(boundary.is_between(), ends.contains(&at), "at {}", at);
                if at == all.len() {
                    break;
                }
            }
            Ok(())
        });
    }
}
