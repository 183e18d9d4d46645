//! The bytes of one connection: notes what moves, and gives up a caller who takes too little of an answer.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::{bounds::Progress, line::Line};

/// A connection's stream.
pub(crate) struct Wire<S> {
    stream: S,
    line: Arc<Line>,
    least: Progress,
    /// Present while something waits to be written.
    waiting: Option<Waiting>,
}

struct Waiting {
    late: Pin<Box<Sleep>>,
    written: usize,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S, line: Arc<Line>, least: Progress) -> Self {
        Self {
            stream,
            line,
            least,
            waiting: None,
        }
    }

    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    /// What came of a write that is pending: an error if the caller has taken too little for too long.
    fn waits<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let within = self.least.within;
        let waiting = self.waiting.get_or_insert_with(|| {
            self.line.stalled();
            Waiting {
                late: Box::pin(sleep(within)),
                written: 0,
            }
        });
        loop {
            ready!(waiting.late.as_mut().poll(context));
            if waiting.written < self.least.bytes {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            waiting.written = 0;
            waiting.late.set(sleep(within));
        }
    }

    fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.waits(context),
            Poll::Ready(Ok(bytes)) => {
                if let Some(waiting) = &mut self.waiting {
                    waiting.written += bytes;
                    self.line.stalled();
                }
                Poll::Ready(Ok(bytes))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.line.read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The transport flushes when it has handed over all that it had.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.waits(context),
            Poll::Ready(Ok(())) => {
                self.waiting = None;
                self.line.flushed();
                Poll::Ready(Ok(()))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
