//! The bytes of one connection: notes what moves, and gives up a caller who takes too little of an answer.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{bounds::Progress, connection_state::ConnectionState, stall::Stall};

/// A connection's stream.
pub(crate) struct Wire<S> {
    stream: S,
    line: Arc<ConnectionState>,
    stall: Stall,
    /// What it said when it was noted last.
    noted: u64,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S, line: Arc<ConnectionState>, least: Progress) -> Self {
        Self {
            stream,
            line,
            stall: Stall::new(least),
            noted: 0,
        }
    }

    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    /// Notes when something begins to wait, and when a part of it is taken: what has waited longest is given up first.
    fn note(&mut self) {
        let turns = self.stall.turns();
        if turns != self.noted {
            self.noted = turns;
            self.line.stalled();
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
        let written = self.stall.written(context, written);
        self.note();
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        let written = self.stall.written(context, written);
        self.note();
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        let flushed = self.stall.flushed(context, flushed);
        self.note();
        ready!(flushed)?;
        self.line.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
