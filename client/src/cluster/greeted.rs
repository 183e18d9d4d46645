//! Connections in plain text that bear calls only once their other end has spoken HTTP/2.
//!
//! A server's first frame is its settings, for which it waits for no call (RFC 9113, section 3.4). Until one has come, nothing but the
//! client's own preface and settings is sent. So of a connection to something else, such as a port for TLS, it is certain that no
//! call was sent over it, however it ends.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::future::BoxFuture;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tonic::codegen::{Service, http::Uri};

/// What a client sends first (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
/// A frame's head: the length of its content in three bytes, its kind, and more.
const HEAD_BYTES: usize = 9;
/// Frames that are about the connection, and about no call (RFC 9113, section 6).
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
/// The first byte of a server that speaks HTTP/2: of the length of a frame, which is at most 16,384 bytes at first.
const FIRST_BYTE: u8 = 0;
/// The first bytes of servers that speak TLS: an alert, or a handshake.
const TLS_FIRST_BYTES: [u8; 2] = [21, 22];

/// Marks the errors of connections that bore no call: they pass through libraries that keep kind and text alone.
const KIND: io::ErrorKind = io::ErrorKind::NotConnected;

/// Why a connection bore no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silent {
    /// What listens there speaks TLS.
    Tls,
    /// It speaks something else.
    Other,
    /// It closed the connection before it said anything.
    Closed,
}

impl Silent {
    const ALL: [Self; 3] = [Self::Tls, Self::Other, Self::Closed];

    fn text(self) -> &'static str {
        match self {
            Self::Tls => "what listens there speaks TLS",
            Self::Other => "what listens there does not speak HTTP/2",
            Self::Closed => "it closed the connection before it said anything",
        }
    }

    fn error(self) -> io::Error {
        io::Error::new(KIND, self.text())
    }

    /// What an error of a connection says, if the connection bore no call.
    pub(crate) fn behind(error: &io::Error) -> Option<Self> {
        let text = error.to_string();
        let says = |silent: &Self| error.kind() == KIND && text == silent.text();
        Self::ALL.into_iter().find(says)
    }
}

/// Connects in plain text.
#[derive(Clone)]
pub(crate) struct Greeting(HttpConnector);

impl Greeting {
    pub(crate) fn new(connect_timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout));
        Self(connector)
    }
}

impl Service<Uri> for Greeting {
    type Response = TokioIo<Greeted<TcpStream>>;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = self.0.call(address);
        Box::pin(async move { Ok(TokioIo::new(Greeted::new(connecting.await?.into_inner()))) })
    }
}

/// A connection, which lets no call pass until its other end has spoken HTTP/2.
pub(crate) struct Greeted<S> {
    stream: S,
    heard: Heard,
}

/// What has been heard of the other end.
enum Heard {
    /// Nothing, since so much of the client's own greeting was sent.
    Nothing(Passed),
    /// The first byte, which its reader has not been given yet.
    First(u8),
    All,
    /// It will bear no call.
    Failed(Silent),
}

/// A place in what a client sends.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    preface: usize,
    head: [u8; HEAD_BYTES],
    head_length: usize,
    /// Bytes of a frame's content that are still to come.
    content: usize,
}

impl Passed {
    /// How many of these bytes are no part of a call, and may be sent; moves behind them.
    fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let rest = bytes.len() - at;
            if self.preface < PREFACE_BYTES {
                let step = rest.min(PREFACE_BYTES - self.preface);
                self.preface += step;
                at += step;
            } else if self.content > 0 {
                let step = rest.min(self.content);
                self.content -= step;
                at += step;
            } else if self.head_length == 3 && ![SETTINGS, WINDOW_UPDATE].contains(&byte) {
                return at;
            } else {
                self.head[self.head_length] = byte;
                self.head_length += 1;
                at += 1;
            }
            if self.head_length == HEAD_BYTES {
                let [a, b, c, ..] = self.head;
                self.content = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.head_length = 0;
            }
        }
        at
    }
}

impl<S> Greeted<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            heard: Heard::Nothing(Passed::default()),
        }
    }
}

impl<S: AsyncRead + Unpin> Greeted<S> {
    /// Waits for the first byte of the other end, and judges it.
    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<Result<u8, Silent>> {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
        Poll::Ready(match (read, buffer.filled()) {
            (Ok(()), &[FIRST_BYTE]) => Ok(FIRST_BYTE),
            (Ok(()), &[first]) if TLS_FIRST_BYTES.contains(&first) => Err(Silent::Tls),
            (Ok(()), &[_, ..]) => Err(Silent::Other),
            (Ok(()), []) | (Err(_), _) => Err(Silent::Closed),
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Greeted<S> {
    /// Sends what may be sent of these bytes. Calls wait here for the first byte, since a transport that has calls to send may read
    /// nothing before those have gone.
    fn poll_greet(
        &mut self,
        context: &mut Context<'_>,
        mut passed: Passed,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let before = passed;
        let allowed = passed.advance(bytes);
        if allowed == 0 && !bytes.is_empty() {
            return match ready!(self.poll_first(context)) {
                Ok(first) => {
                    self.heard = Heard::First(first);
                    Pin::new(&mut self.stream).poll_write(context, bytes)
                }
                Err(silent) => self.fail(context, silent),
            };
        }
        match ready!(Pin::new(&mut self.stream).poll_write(context, &bytes[..allowed])) {
            Ok(written) => {
                let mut passed = before;
                passed.advance(&bytes[..written]);
                self.heard = Heard::Nothing(passed);
                Poll::Ready(Ok(written))
            }
            // Without the greeting the other end says nothing.
            Err(_broken) => self.fail(context, Silent::Closed),
        }
    }

    /// Leaves the error to the reader, which tells the calls of it: the transport tells them nothing of a write that fails.
    fn fail(&mut self, context: &mut Context<'_>, silent: Silent) -> Poll<io::Result<usize>> {
        self.heard = Heard::Failed(silent);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let first = match self.heard {
            Heard::All => return Pin::new(&mut self.stream).poll_read(context, buffer),
            Heard::First(first) => Ok(first),
            Heard::Nothing(_) => ready!(self.poll_first(context)),
            Heard::Failed(silent) => Err(silent),
        };
        let first = first.map_err(|silent| {
            self.heard = Heard::Failed(silent);
            silent.error()
        })?;
        if buffer.remaining() == 0 {
            self.heard = Heard::First(first);
        } else {
            self.heard = Heard::All;
            buffer.put_slice(&[first]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.heard {
            Heard::Nothing(passed) => self.poll_greet(context, passed, bytes),
            Heard::First(_) | Heard::All => Pin::new(&mut self.stream).poll_write(context, bytes),
            Heard::Failed(silent) => Poll::Ready(Err(silent.error())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Heard::First(_) | Heard::All = self.heard {
            return Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        }
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(context, first.map_or(&[], |slice| &**slice))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
