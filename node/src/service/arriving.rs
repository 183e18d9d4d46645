//! How the messages of a request come in: each is charged to its caller before its bytes are kept, whole within a time, and told what it
//! takes up before it is decoded.
//!
//! A message is charged by the length in front of it, and again by what decoding adds. Where there is no room, a single call
//! is refused, and a stream of many waits, so that HTTP/2's flow control slows its caller down.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::{Status, body::Body};

use super::{
    account::Account,
    budget::{Charge, Full},
    decoded_size::Request,
    failure::Failure,
};
use crate::{
    bounds::{GivenUp, What},
    limits::MESSAGE_BYTES_MAX,
};

/// What is awaited of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One message, and then the end.
    Call,
    /// Messages for as long as the caller likes, each at most this long after the one before. `None` if the stream's reader ends idle
    /// streams itself.
    Stream(Option<Duration>),
}

/// How the messages of one request are looked at.
pub(super) struct Intake {
    /// What is awaited.
    pub(super) kind: Kind,
    /// How long one message may take.
    pub(super) time: Duration,
    /// Who is charged.
    pub(super) account: Arc<Account>,
    /// What the messages look like; `None` for those of other contracts, whose services have small ones.
    pub(super) request: Option<Request<'static>>,
}

/// A request's body on its way.
pub struct Arriving {
    body: Body,
    /// Absent until the caller is known: until then nothing is read.
    intake: Option<Intake>,
    /// What has come and was not looked at yet.
    rest: Bytes,
    /// The message that has begun.
    begun: Option<Begun>,
    /// A message that is whole and waits for its room.
    whole: Option<Bytes>,
    /// Room that a stream waits for.
    room: Option<Room>,
    /// When the message, or the end, must have come; absent while neither has to.
    due: Option<Instant>,
    /// Made when there is something to wait for: most requests come in one piece.
    timer: Option<Pin<Box<Sleep>>>,
}

type Room = Pin<Box<dyn Future<Output = Result<Charge, Full>> + Send>>;

/// A message of which not all has come.
#[derive(Debug)]
struct Begun {
    /// The prefix and what has come of the message behind it.
    bytes: BytesMut,
    /// Bytes of both; unknown until the prefix has come.
    length: Option<usize>,
}

/// Bytes in front of a message: whether it is compressed, and its length
/// (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
const PREFIX_BYTES: usize = 5;

/// Bytes of a message and its prefix; `None` if that is not to be read: the service refuses it in
/// its own words, and one that is too long is counted.
fn length(prefix: &[u8], intake: Option<&Intake>) -> Option<usize> {
    let [is_compressed, a, b, c, d] = *prefix.first_chunk::<PREFIX_BYTES>()?;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    if is_compressed != 0 {
        return None;
    }
    if length > MESSAGE_BYTES_MAX {
        if let Some(intake) = intake {
            intake.account.budgets().give_up(GivenUp::OverLength);
        }
        return None;
    }
    Some(PREFIX_BYTES + length)
}

impl Arriving {
    /// A body of which nothing is read yet.
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            intake: None,
            rest: Bytes::new(),
            begun: None,
            whole: None,
            room: None,
            due: None,
            timer: None,
        }
    }

    /// Begins to read, for this account.
    pub(super) fn begin(&mut self, intake: Intake) {
        self.due = match intake.kind {
            Kind::Call => Some(Instant::now() + intake.time),
            Kind::Stream(idle) => idle.map(|idle| Instant::now() + idle),
        };
        self.intake = Some(intake);
    }

    /// The body as it comes, for a message that is not framed as gRPC frames it, and how it is to be looked at.
    ///
    /// # Errors
    /// If the caller is not known yet.
    pub(super) fn unframed(self) -> Result<(Body, Intake), Failure> {
        let intake = self.intake.ok_or(Failure::Unauthenticated)?;
        Ok((self.body, intake))
    }
}

impl Arriving {
    /// Looks at what has come; false if there is nothing to look at.
    fn look(&mut self) -> Result<bool, Failure> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        if self.begun.is_none() {
            self.message_begins();
            if self.rest.len() >= PREFIX_BYTES {
                let Some(length) = length(&self.rest, self.intake.as_ref()) else {
                    self.pass_on();
                    return Ok(true);
                };
                if self.rest.len() >= length {
                    let whole = self.rest.split_to(length);
                    let bytes = length + self.decoded_bytes(&whole)?;
                    return self.message_is_whole(whole, bytes);
                }
            }
        }
        let begun = self.begun.get_or_insert_with(|| Begun {
            bytes: BytesMut::new(),
            length: None,
        });
        let until = begun.length.unwrap_or(PREFIX_BYTES);
        let missing = until.saturating_sub(begun.bytes.len());
        let now = self.rest.split_to(missing.min(self.rest.len()));
        begun.bytes.extend_from_slice(&now);
        if begun.bytes.len() < until {
            return Ok(true);
        }
        if begun.length.is_none() {
            let Some(length) = length(&begun.bytes, self.intake.as_ref()) else {
                self.pass_on();
                return Ok(true);
            };
            // Pages of memory are taken as bytes come, and no more than the length says.
            begun.bytes.reserve(length - PREFIX_BYTES);
            begun.length = Some(length);
            if length > PREFIX_BYTES {
                return self.charge(length);
            }
        }
        let length = begun.bytes.len();
        let whole = self.begun.take().map(|begun| begun.bytes.freeze());
        let whole = whole.unwrap_or_default();
        let mut bytes = self.decoded_bytes(&whole)?;
        if length == PREFIX_BYTES {
            bytes += length;
        }
        self.message_is_whole(whole, bytes)
    }

    fn message_begins(&mut self) {
        if let Some(intake) = &self.intake
            && matches!(intake.kind, Kind::Stream(_))
        {
            (self.due, self.timer) = (Some(Instant::now() + intake.time), None);
        }
    }

    fn message_is_whole(&mut self, whole: Bytes, bytes: usize) -> Result<bool, Failure> {
        self.whole = Some(whole);
        self.charge(bytes)
    }

    /// Hands on what the service will refuse, as it came.
    fn pass_on(&mut self) {
        let begun = self.begun.take().map(|begun| begun.bytes.freeze());
        let rest = std::mem::take(&mut self.rest);
        self.whole = Some(match begun {
            Some(begun) => Bytes::from([begun, rest].concat()),
            None => rest,
        });
    }

    /// What decoding this message adds to its bytes.
    fn decoded_bytes(&self, whole: &[u8]) -> Result<usize, Failure> {
        let Some(intake) = &self.intake else {
            return Ok(0);
        };
        let bytes_max = intake.account.budgets().bounds().decoded_bytes;
        match (intake.request, whole.get(PREFIX_BYTES..)) {
            (Some(request), Some(message)) => request.decoded_bytes(message, bytes_max),
            _ => Ok(0),
        }
    }

    /// Takes room for this many bytes, or has a stream wait for it.
    fn charge(&mut self, bytes: usize) -> Result<bool, Failure> {
        let Some(intake) = &self.intake else {
            return Ok(true);
        };
        match intake.account.take(What::RequestBytes, bytes) {
            Ok(charge) => intake.account.keep_request(charge),
            Err(full) if intake.kind == Kind::Call => return Err(full.into()),
            Err(_) => {
                let until = self.due.unwrap_or_else(|| Instant::now() + intake.time);
                let account = Arc::clone(&intake.account);
                self.room = Some(Box::pin(account.wait(What::RequestBytes, bytes, until)));
            }
        }
        Ok(true)
    }

    /// Waits for the room that a stream needs.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let (Some(room), Some(intake)) = (&mut self.room, &self.intake) else {
            return Poll::Ready(Ok(()));
        };
        let charge = ready!(room.as_mut().poll(context));
        self.room = None;
        Poll::Ready(match charge {
            Ok(charge) => {
                intake.account.keep_request(charge);
                Ok(())
            }
            Err(full) => Err(full.into()),
        })
    }

    /// The next message, if it is whole and has its room.
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            ready!(self.poll_room(context))?;
            if let Some(whole) = self.whole.take() {
                if let Some(intake) = &self.intake
                    && let Kind::Stream(idle) = intake.kind
                {
                    (self.due, self.timer) = (idle.map(|idle| Instant::now() + idle), None);
                }
                return Poll::Ready(Ok(Some(whole)));
            }
            if !self.look()? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// The end of the body for this reason, which is counted; a budget counts what it refuses by itself.
    fn give_up<T>(&self, failure: Failure) -> Poll<Option<Result<T, Status>>> {
        let why = match &failure {
            Failure::TooSlow(_) => Some(GivenUp::Late),
            Failure::Idle(_) => Some(GivenUp::Idle),
            Failure::Invalid(_) => Some(GivenUp::TooLarge),
            Failure::Malformed(_) => Some(GivenUp::Malformed),
            _ => None,
        };
        if let (Some(intake), Some(why)) = (&self.intake, why) {
            intake.account.budgets().give_up(why);
        }
        Poll::Ready(Some(Err(failure.into())))
    }

    /// Ready when the message is late, or a stream between two messages was idle for too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Failure> {
        let (Some(due), Some(intake)) = (self.due, &self.intake) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        ready!(timer.as_mut().poll(context));
        let is_between = self.begun.is_none() && self.whole.is_none();
        Poll::Ready(match intake.kind {
            Kind::Stream(Some(idle)) if is_between => Failure::Idle(idle),
            _ => Failure::TooSlow(intake.time),
        })
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            match self.poll_message(context) {
                Poll::Ready(Ok(Some(message))) => {
                    return Poll::Ready(Some(Ok(Frame::data(message))));
                }
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Err(failure)) => return self.give_up(failure),
                Poll::Pending => {
                    let late = ready!(self.poll_late(context));
                    return self.give_up(late);
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                let late = ready!(self.poll_late(context));
                return self.give_up(late);
            };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(bytes))) => self.rest = bytes,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                // What has begun and does not end, the service refuses.
                None => {
                    let begun = self.begun.take().map(|begun| begun.bytes.freeze());
                    return Poll::Ready(begun.map(|begun| Ok(Frame::data(begun))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_between = self.rest.is_empty() && self.begun.is_none() && self.whole.is_none();
        is_between && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
