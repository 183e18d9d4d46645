//! What every call passes: the tool is open, and the call ends within its deadline.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::time::timeout;

use crate::{
    client::DEADLINE_MAX,
    error::{Error, ErrorKind},
};

#[derive(Debug)]
pub(super) struct Gate {
    closed: AtomicBool,
    deadline: Duration,
}

impl Gate {
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            closed: AtomicBool::new(false),
            deadline: deadline.min(DEADLINE_MAX),
        }
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// A call without effect.
    pub(super) async fn read<O>(
        &self,
        call: impl Future<Output = Result<O, Error>> + Send,
    ) -> Result<O, Error> {
        let late = (ErrorKind::Unavailable, "no answer came within the deadline");
        self.pass(call, late).await
    }

    /// A call that may have taken effect when its time is over.
    pub(super) async fn write<O>(
        &self,
        call: impl Future<Output = Result<O, Error>> + Send,
    ) -> Result<O, Error> {
        let late = (
            ErrorKind::Ambiguous,
            "no answer came within the deadline, and whether the write took effect is not known",
        );
        self.pass(call, late).await
    }

    async fn pass<O>(
        &self,
        call: impl Future<Output = Result<O, Error>> + Send,
        (kind, message): (ErrorKind, &str),
    ) -> Result<O, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        let called = timeout(self.deadline, call).await;
        called.unwrap_or_else(|_elapsed| Err(Error::new(kind, message)))
    }
}
