//! The body of a request on its way: within its time, its size, and the room that all bodies share.

use std::{
    fmt, io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_LENGTH};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    connection_state::{Bell, ConnectionState},
    pool::{Place, Rank},
    refusal::Refusal,
    site::Site,
};

/// What has come of one request's body, as its reader and its service see it.
pub(crate) struct Intake {
    /// What it holds of the room for bodies.
    place: Place,
    evicted: Arc<Bell>,
    refusal: OnceLock<Refusal>,
}

impl Intake {
    /// Nothing has come yet.
    fn new(site: &Site, line: &ConnectionState) -> Arc<Self> {
        let evicted = Arc::<Bell>::default();
        let place = site
            .requests
            .enter(line.address(), Arc::clone(&evicted) as _);
        Arc::new(Self {
            place,
            evicted,
            refusal: OnceLock::new(),
        })
    }

    /// Why the body was refused, if its reader was told so.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refusal.get().copied()
    }

    fn refuse(&self, refusal: Refusal) -> io::Error {
        io::Error::other(self.refusal.get_or_init(|| refusal).message())
    }
}

/// The room that a request's body takes up among all of its listener's, in the request's extensions.
///
/// It is given back when the last clone is dropped, and no sooner than the answer begins. A service
/// whose work outlives the request keeps a clone as long as that. Any other removes it from the
/// extensions before they are kept for longer than the request is served.
#[derive(Clone)]
pub struct Room(Arc<Intake>);

/// There is no room for what a body becomes. The listener has its own answer: 503, or 429 for the
/// address.
#[derive(Debug)]
pub struct NoRoom(String);

impl Room {
    pub(crate) fn new(intake: &Arc<Intake>) -> Self {
        Self(Arc::clone(intake))
    }

    /// Claims as many bytes more, for what is made of a body that has come whole. They are given
    /// back as the body's own are.
    ///
    /// # Errors
    /// If others hold the room. Whatever the service answers then, the listener refuses the request.
    pub fn claim(&self, bytes: usize) -> Result<(), NoRoom> {
        let claimed = self.0.place.claim(bytes);
        claimed.map_err(|full| NoRoom(self.0.refuse(full.into()).to_string()))
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").finish_non_exhaustive()
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRoom {}

/// The length that the head declares. What is no number is refused by the transport.
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The body.
pub(crate) struct Arriving {
    body: Incoming,
    intake: Arc<Intake>,
    site: Arc<Site>,
    line: Arc<ConnectionState>,
    /// What the head says, if it does.
    declared: Option<u64>,
    bytes: usize,
    is_whole: bool,
    due: Due,
}

/// By when bytes must come.
struct Due {
    /// The whole body.
    end: Instant,
    /// The bytes that may count from now on.
    window: Instant,
    window_bytes: usize,
    /// Made when there is something to wait for: most bodies come in one piece.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    /// The body of the request with this head.
    pub(crate) fn new(
        headers: &HeaderMap,
        body: Incoming,
        site: Arc<Site>,
        line: Arc<ConnectionState>,
    ) -> Self {
        let (now, bounds) = (Instant::now(), &site.port.bounds);
        let due = Due {
            end: now + bounds.body_time,
            window: now + bounds.body_progress.within,
            window_bytes: 0,
            timer: None,
        };
        Self {
            is_whole: body.is_end_stream(),
            declared: declared(headers),
            body,
            intake: Intake::new(&site, &line),
            site,
            line,
            bytes: 0,
            due,
        }
    }

    /// What is known of the body once it has gone to its reader.
    pub(crate) fn intake(&self) -> Arc<Intake> {
        Arc::clone(&self.intake)
    }

    /// Why it is not read any further.
    fn refused(&self, context: &Context<'_>) -> Option<Refusal> {
        if self.intake.evicted.has_rung(context.waker()) {
            return Some(Refusal::Crowded);
        }
        let max = self.site.port.bounds.body_bytes;
        let is_too_large = self.declared.is_some_and(|bytes| bytes > max as u64);
        is_too_large.then_some(Refusal::TooLarge { max })
    }

    /// Takes note of bytes that have come.
    fn note(&mut self, bytes: usize) -> Result<(), Refusal> {
        let max = self.site.port.bounds.body_bytes;
        self.bytes += bytes;
        self.due.window_bytes += bytes;
        if self.bytes > max {
            return Err(Refusal::TooLarge { max });
        }
        self.intake.place.claim(bytes)?;
        if self.bytes == bytes {
            self.intake.place.wait(Rank::First);
        }
        Ok(())
    }

    /// Ready when the body is too slow.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let least = self.site.port.bounds.body_progress;
        let due = &mut self.due;
        loop {
            let next = due.end.min(due.window);
            let timer = due.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
            if timer.deadline() != next {
                timer.as_mut().reset(next);
            }
            ready!(timer.as_mut().poll(context));
            if next == due.end || due.window_bytes < least.bytes {
                return Poll::Ready(());
            }
            due.window = Instant::now() + least.within;
            due.window_bytes = 0;
        }
    }

    fn whole(&mut self) {
        self.is_whole = true;
        // What has come whole is work under way, not somebody's to give up.
        self.intake.place.work();
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        if let Some(refusal) = this.refused(context) {
            return Poll::Ready(Some(Err(this.intake.refuse(refusal))));
        }
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) else {
            ready!(this.poll_late(context));
            return Poll::Ready(Some(Err(this.intake.refuse(Refusal::SlowBody))));
        };
        let frame = match frame {
            None => {
                this.whole();
                return Poll::Ready(None);
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
            Some(Ok(frame)) => frame,
        };
        if let Some(data) = frame.data_ref()
            && let Err(refusal) = this.note(data.len())
        {
            return Poll::Ready(Some(Err(this.intake.refuse(refusal))));
        }
        if this.body.is_end_stream() {
            this.whole();
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_whole
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.is_whole {
            self.line.unread();
        }
    }
}
