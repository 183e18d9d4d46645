//! One connection from its acceptance to its end.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until, timeout},
};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::{
    answer::NO_ROOM,
    closing::{close, close_quietly},
    connection_state::{ConnectionState, Phase},
    listener::Open,
    refusal::{Refusal, Refused},
    service::Requests,
    site::Site,
    traffic::Bound,
    wire::Wire,
};

/// Long enough that no connection waits for it: a year.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why a connection is closed whose caller does not read its answer.
const NO_PLACE: &str = "others needed the places of callers that did not read their answers";

type Transport<S> = http1::Connection<TokioIo<Wire<S>>, Requests>;

/// Why a connection ends.
enum End {
    /// The caller or the transport ended it.
    Over(hyper::Result<()>),
    /// It has waited too long, or its place is needed.
    Refused(Refusal),
    /// It rested, and is not kept any longer.
    Rested,
    /// The caller does not read its answer, and others need its room: why.
    Cut(Bound, &'static str),
}

/// Serves one connection.
pub(crate) async fn serve<O: Open>(
    site: Arc<Site>,
    line: Arc<ConnectionState>,
    open: O,
    stream: TcpStream,
) {
    let Some(stream) = opened(&site, &line, open, stream).await else {
        return;
    };
    let bounds = &site.port.bounds;
    let wire = Wire::new(stream, Arc::clone(&line), bounds.answer_progress);
    let requests = Requests::new(Arc::clone(&site), Arc::clone(&line));
    let transport = http1::Builder::new()
        .timer(TokioTimer::new())
        // Heads have their time in `poll`, which tells a slow head from a connection that rests.
        .header_read_timeout(None)
        .max_buf_size(bounds.head_bytes)
        .serve_connection(TokioIo::new(wire), requests);
    let mut connection = Connection {
        closed: Box::pin(site.closed.clone().cancelled_owned()),
        ended: Box::pin(site.shutdown.ended().cancelled_owned()),
        timer: Box::pin(sleep_until(Instant::now() + FAR)),
        closed_at: None,
        is_ending: false,
        site: Arc::clone(&site),
        line: Arc::clone(&line),
        transport,
    };
    let end = poll_fn(|context| connection.poll(context)).await;
    let stream = connection
        .transport
        .into_parts()
        .io
        .into_inner()
        .into_stream();
    match end {
        End::Over(ended) => {
            // The caller may still be sending the rest of a head that is refused.
            let is_refused = ended.as_ref().is_err_and(hyper::Error::is_parse);
            if let Err(error) = ended {
                broke(&site, &line, &error);
            }
            if is_refused || line.is_unread() {
                leave(&site, &line, close(stream, b"")).await;
            } else {
                close_quietly(stream).await;
            }
        }
        End::Refused(refusal) => {
            site.refuses(line.from, refusal, Refused::Connection);
            let last = refusal.bytes(site.port.style);
            leave(&site, &line, close(stream, &last)).await;
        }
        End::Rested => close_quietly(stream).await,
        End::Cut(bound, why) => site.gives_up(line.from, bound, why),
    }
}

/// Closes a connection. One whose place another has is no longer counted, and of those only a few
/// are still read: callers that connect fast enough would else hold any number of open files.
async fn leave(site: &Site, line: &ConnectionState, closing: impl Future<Output = ()>) {
    let mut closing = pin!(closing);
    let lost = poll_fn(|context| {
        if line.place_lost().has_rung(context.waker()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    tokio::select! {
        // First, so that the last bytes are written in any case.
        biased;
        () = &mut closing => return,
        () = lost => {}
    }
    if let Ok(_permit) = site.leaving.try_acquire() {
        closing.await;
    }
}

/// The stream, as soon as its handshake is done, if that comes about.
async fn opened<O: Open>(
    site: &Site,
    line: &ConnectionState,
    open: O,
    stream: TcpStream,
) -> Option<O::Stream> {
    let mut opening = pin!(timeout(site.port.bounds.head_time, open.open(stream)));
    let opened = poll_fn(|context| {
        // First, so that a caller in plain text is told why it is closed.
        if let Poll::Ready(opened) = opening.as_mut().poll(context) {
            return Poll::Ready(opened?);
        }
        if line.place_lost().has_rung(context.waker()) {
            return Poll::Ready(Err(io::Error::other("others needed its place")));
        }
        Poll::Pending
    });
    let opened = tokio::select! {
        opened = opened => opened,
        () = site.closed.cancelled() => return None,
    };
    opened
        .inspect_err(|error| tracing::debug!(port = site.port.name, from = %line.from, %error, "a connection did not come about"))
        .ok()
}

fn broke(site: &Site, line: &ConnectionState, error: &hyper::Error) {
    let is_late = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::TimedOut);
    if is_late {
        let why = "their callers did not read their answers";
        site.gives_up(line.from, Bound::AnswerProgress, why);
    } else if error.is_parse_too_large() {
        site.gives_up(line.from, Bound::HeadBytes, "their heads were too large");
    } else {
        tracing::debug!(port = site.port.name, from = %line.from, %error, "a connection broke");
    }
}

struct Connection<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    site: Arc<Site>,
    line: Arc<ConnectionState>,
    transport: Transport<S>,
    timer: Pin<Box<Sleep>>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    closed_at: Option<Instant>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    is_ending: bool,
}

impl<S> Connection<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        if self.closed_at.is_none() && self.closed.as_mut().poll(context).is_ready() {
            self.closed_at = Some(Instant::now());
        }
        if !self.is_ending && self.ended.as_mut().poll(context).is_ready() {
            self.is_ending = true;
            Pin::new(&mut self.transport).graceful_shutdown();
        }
        if let Poll::Ready(ended) = self.transport.poll_without_shutdown(context) {
            return Poll::Ready(End::Over(ended));
        }
        if self.line.answer_lost().has_rung(context.waker()) {
            return Poll::Ready(End::Cut(Bound::AnswerBytes, NO_ROOM));
        }
        let (phase, since) = self.line.phase();
        if self.line.place_lost().has_rung(context.waker()) {
            match phase {
                Phase::Opening | Phase::Head => {
                    return Poll::Ready(End::Refused(Refusal::Crowded));
                }
                Phase::Idle => return Poll::Ready(End::Rested),
                Phase::Busy if self.line.is_stalled() => {
                    return Poll::Ready(End::Cut(Bound::Connections, NO_PLACE));
                }
                // A request came just before: it is served, and is the last.
                Phase::Busy => Pin::new(&mut self.transport).graceful_shutdown(),
            }
        }
        self.poll_late(phase, since, context)
    }

    /// Ready when the connection has waited too long.
    fn poll_late(&mut self, phase: Phase, since: Instant, context: &mut Context<'_>) -> Poll<End> {
        let bounds = &self.site.port.bounds;
        let (limit, end) = match phase {
            Phase::Busy => return Poll::Pending,
            Phase::Opening | Phase::Head => (bounds.head_time, End::Refused(Refusal::SlowHead)),
            Phase::Idle => (bounds.idle_time, End::Rested),
        };
        let mut due = since + limit;
        if let Some(closed) = self.closed_at {
            due = due.min(closed + self.site.port.drain.linger);
        }
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        if self.timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(match (phase, self.closed_at) {
            (Phase::Opening, Some(_)) => End::Rested,
            (Phase::Head, Some(_)) => End::Refused(Refusal::Crowded),
            _ => end,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Router;
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;
    use crate::{Bounds, Port, Shutdown, site::LEAVING_MAX};

    /// Whether a connection is still read after its last bytes, and those, when a number of others came
    /// after it.
    async fn is_read(site: &Arc<Site>, others: usize) -> (bool, Vec<u8>) {
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let open = || ConnectionState::open(&site.connections, from).unwrap();
        let line = open();
        let _others: Vec<_> = (0..others).map(|_| open()).collect();
        let (mut caller, stream) = duplex(64);
        let left = leave(site, &line, close(stream, b"no room")).now_or_never();
        let mut told = Vec::new();
        caller.read_to_end(&mut told).await.unwrap();
        (left.is_none(), told)
    }

    #[tokio::test]
    async fn few_connections_without_a_place_are_still_read() {
        let port = Port {
            bounds: Bounds::default().connections(1),
            ..Port::new("a port")
        };
        let site = Site::new(port, Router::new(), Shutdown::new());
        let told = b"no room".to_vec();
        assert_eq!(is_read(&site, 1).await, (true, told.clone()));
        assert_eq!(site.leaving.forget_permits(LEAVING_MAX), LEAVING_MAX);
        assert_eq!(is_read(&site, 1).await, (false, told.clone()));
        assert_eq!(is_read(&site, 0).await, (true, told), "it has a place");
    }
}
