//! Calls that take several steps, each within the deadline of the whole.

use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    error::{Error, ErrorKind},
    retry::Backoff,
};

/// What was under way when the deadline ended. It decides the kind of the error.
#[derive(Debug, Clone, Copy)]
pub enum Ended {
    /// A read: [`Unavailable`](ErrorKind::Unavailable).
    Reading,
    /// A write: [`Ambiguous`](ErrorKind::Ambiguous).
    Writing,
    /// The pause before another round: [`Conflict`](ErrorKind::Conflict).
    Pausing {
        /// The revision that the other writers left.
        revision: u64,
    },
}

/// Waits for a step, at most until the deadline.
///
/// # Errors
/// The step's own; at the deadline, the one that `ended` names.
pub async fn within<O>(
    deadline: Instant,
    step: impl Future<Output = Result<O, Error>>,
    ended: Ended,
) -> Result<O, Error> {
    let Ok(outcome) = timeout_at(deadline, step).await else {
        let (kind, message) = match ended {
            Ended::Reading => (ErrorKind::Unavailable, "the deadline ended while reading"),
            Ended::Writing => (ErrorKind::Ambiguous, "the deadline ended while writing"),
            Ended::Pausing { revision } => (
                ErrorKind::Conflict {
                    revision,
                    operation: 0,
                },
                "others wrote first until the deadline ended: try again, with fewer writers at once",
            ),
        };
        return Err(Error::new(kind, message));
    };
    outcome
}

/// Waits before the next round, because others wrote first and left the key at this revision.
///
/// # Errors
/// [`Conflict`](ErrorKind::Conflict) at the deadline.
pub async fn pause(deadline: Instant, backoff: &mut Backoff, revision: u64) -> Result<(), Error> {
    let pause = async {
        sleep(backoff.next_pause()).await;
        Ok(())
    };
    within(deadline, pause, Ended::Pausing { revision }).await
}
