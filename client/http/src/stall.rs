//! Gives up a caller who takes too little of what waits to be written, since that holds memory.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Sleep, sleep};

use crate::bounds::Progress;

/// What waits to be written to one connection, and since when.
#[derive(Debug)]
pub struct Stall {
    least: Progress,
    /// Present while something waits to be written.
    waiting: Option<Waiting>,
    turns: u64,
}

#[derive(Debug)]
struct Waiting {
    late: Pin<Box<Sleep>>,
    written: usize,
}

impl Stall {
    /// Nothing waits. What will must move at least this much.
    #[must_use]
    pub fn new(least: Progress) -> Self {
        Self {
            least,
            waiting: None,
            turns: 0,
        }
    }

    /// Grows whenever something begins to wait, and whenever a part of what waits is taken.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// What came of a write.
    ///
    /// # Errors
    /// `TimedOut`, if it is pending and the caller has taken too little for too long; the write's own.
    pub fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => self.waits(context),
            Poll::Ready(Ok(bytes)) => {
                if let Some(waiting) = &mut self.waiting {
                    waiting.written += bytes;
                    self.turns += 1;
                }
                Poll::Ready(Ok(bytes))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }

    /// What came of a flush. Nothing waits once one is done, for a transport flushes when it has handed over all that it had.
    ///
    /// # Errors
    /// As [`written`](Self::written).
    pub fn flushed(
        &mut self,
        context: &mut Context<'_>,
        flushed: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        match flushed {
            Poll::Pending => self.waits(context),
            Poll::Ready(Ok(())) => {
                self.waiting = None;
                Poll::Ready(Ok(()))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }

    fn waits<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let within = self.least.within;
        let waiting = self.waiting.get_or_insert_with(|| {
            self.turns += 1;
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
}
