//! One connection that was let in.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use helve_http::{Progress, Stall};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tonic::transport::server::Connected;

use super::Place;
use crate::{limits::CONNECTION_STALL_MAX, tls::certificate::Certificate};

/// What a caller of HTTP/2 sends first: its preface, and the head of its settings (RFC 9113, 3.4).
const GREETING_BYTES: usize = 24 + 9;

/// The least that a caller must take of what waits to be written: anything.
const LEAST_TAKEN: Progress = Progress {
    bytes: 1,
    within: CONNECTION_STALL_MAX,
};

/// In plain text, or over TLS.
pub(super) type Bytes = Either<TcpStream, TlsStream<TcpStream>>;

/// A connection. It keeps its place at the port until it is dropped.
pub struct Connection {
    stream: Bytes,
    info: Info,
    greeting: Option<Greeting>,
    stall: Stall,
    place: Place,
}

/// Whose connection a call came over: in the extensions of every request.
#[derive(Debug, Clone)]
pub struct Info {
    /// Where it comes from.
    pub from: SocketAddr,
    /// What the caller has shown and proved; `None` if it showed no certificate, which only the port for nodes insists on.
    pub certificate: Option<Arc<Certificate>>,
}

/// What must still come, and by when.
struct Greeting {
    missing: usize,
    late: Pin<Box<Sleep>>,
}

impl Connection {
    pub(super) fn new(stream: Bytes, from: SocketAddr, place: Place, greeting: Duration) -> Self {
        let certificate = match &stream {
            Either::Left(_) => None,
            Either::Right(stream) => shown(stream).map(Arc::new),
        };
        Self {
            stream,
            info: Info { from, certificate },
            greeting: Some(Greeting {
                missing: GREETING_BYTES,
                late: Box::pin(sleep(greeting)),
            }),
            stall: Stall::new(LEAST_TAKEN),
            place,
        }
    }
}

/// The caller's certificate, which the handshake has verified.
fn shown(stream: &TlsStream<TcpStream>) -> Option<Certificate> {
    let (_, session) = stream.get_ref();
    let own = session.peer_certificates()?.first()?;
    // The caller that it names cannot be known then, so it counts as none.
    Certificate::parse(own)
        .inspect_err(|error| tracing::warn!(error, "a caller's certificate cannot be read"))
        .ok()
}

impl Connected for Connection {
    type ConnectInfo = Info;

    fn connect_info(&self) -> Info {
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let Some(greeting) = &mut this.greeting else {
            return read;
        };
        if read.is_pending() {
            ready!(greeting.late.as_mut().poll(context));
            this.place.port_use.refused.inc();
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        greeting.missing = greeting
            .missing
            .saturating_sub(buffer.filled().len() - before);
        if greeting.missing == 0 {
            this.greeting = None;
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.stall.written(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.stall.flushed(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.stall.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
