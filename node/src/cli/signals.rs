//! The signals that ask a running command to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, from now on: neither ends the process any more.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one, and names it.
    pub(super) async fn recv(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
