//! What every call passes: the tool is open, and the call ends within its deadline.

use std::sync::atomic::{AtomicBool, Ordering};

use helve_client::{Error, ErrorKind, Ttl, limits::DEADLINE_MAX};
use tokio::time::{Instant, timeout_at};

use super::options::ToolOptions;

#[derive(Debug)]
pub(super) struct Gate {
    closed: AtomicBool,
    options: ToolOptions,
}

/// One call, which ends by then.
#[derive(Debug)]
pub(super) struct Call {
    until: Instant,
}

impl Gate {
    pub(super) fn new(options: ToolOptions) -> Result<Self, Error> {
        options.lifespan(Ttl::Default)?;
        Ok(Self {
            closed: AtomicBool::new(false),
            options: options.deadline(options.deadline.min(DEADLINE_MAX)),
        })
    }

    pub(super) fn options(&self) -> &ToolOptions {
        &self.options
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn begin(&self) -> Result<Call, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        Ok(Call {
            until: Instant::now() + self.options.deadline,
        })
    }
}

impl Call {
    pub(super) async fn without_effect<O>(
        &self,
        work: impl Future<Output = Result<O, Error>> + Send,
    ) -> Result<O, Error> {
        let late = (ErrorKind::Unavailable, "no answer came within the deadline");
        self.within(work, late).await
    }

    /// What may have taken effect when its time is over.
    pub(super) async fn with_effect<O>(
        &self,
        work: impl Future<Output = Result<O, Error>> + Send,
    ) -> Result<O, Error> {
        let late = (
            ErrorKind::Ambiguous,
            "no answer came within the deadline, and whether the write took effect is not known",
        );
        self.within(work, late).await
    }

    async fn within<O>(
        &self,
        work: impl Future<Output = Result<O, Error>> + Send,
        (kind, message): (ErrorKind, &str),
    ) -> Result<O, Error> {
        let worked = timeout_at(self.until, work).await;
        worked.unwrap_or_else(|_elapsed| Err(Error::new(kind, message)))
    }
}
