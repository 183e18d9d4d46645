//! The steps in which a server stops.

use tokio_util::sync::CancellationToken;

/// Asks a server to stop, and says how far it is. Clones are the same.
///
/// 1. [`begin`](Self::begin): the server is asked to stop. It is no longer ready.
/// 2. Its listener closes, and requests under way finish: [`serve`](crate::serve) does that.
/// 3. [`end`](Self::end): what streams without an end of its own, such as a subscription, must end now.
///    [`serve`](crate::serve) calls it once no other request is under way.
///
/// Whatever breaks off requests when it is cancelled, such as rmcp's cancellation token, must be given
/// [`ended`](Self::ended), never the first step: a call whose write takes effect would be answered with an error.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    ended: CancellationToken,
}

impl Shutdown {
    /// One that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the server to stop.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Whether the server is asked to stop.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until the server is asked to stop.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Breaks off everything that is still under way.
    pub fn end(&self) {
        self.begun.cancel();
        self.ended.cancel();
    }

    /// A token that is cancelled by [`end`](Self::end).
    #[must_use]
    pub fn ended(&self) -> CancellationToken {
        self.ended.child_token()
    }

    /// Ends the server when what this returns is dropped.
    #[must_use]
    pub fn end_on_drop(self) -> EndOnDrop {
        EndOnDrop(self)
    }
}

/// Ends a server when it is dropped.
#[derive(Debug)]
pub struct EndOnDrop(Shutdown);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
