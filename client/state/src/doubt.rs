//! Writes that may be repeated when it is not known whether they took effect.

use helve_client::{
    Error, ErrorKind, StateTool, StoreOutcome, Ttl,
    extend::{Backoff, Ended, within},
};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

/// Repeats a write that does no harm twice, until it is known what it did, or the deadline has ended.
pub(crate) async fn repeat<O, F>(
    deadline: Instant,
    mut write: impl FnMut() -> F,
) -> Result<O, Error>
where
    F: Future<Output = Result<O, Error>>,
{
    let mut backoff = Backoff::contention();
    loop {
        let error = match within(deadline, write(), Ended::Writing).await {
            Err(error) if error.kind() == ErrorKind::Ambiguous => error,
            known => return known,
        };
        if timeout_at(deadline, sleep(backoff.next_pause()))
            .await
            .is_err()
        {
            return Err(error);
        }
        tracing::debug!(%error, "repeating a write");
    }
}

/// As [`repeat`], for a write that only prepares another: what it left is of no effect.
pub(crate) async fn prepare<O, F>(deadline: Instant, write: impl FnMut() -> F) -> Result<O, Error>
where
    F: Future<Output = Result<O, Error>>,
{
    repeat(deadline, write)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::Ambiguous => {
                let message = "the deadline ended before the value was sent";
                Error::new(ErrorKind::Unavailable, message).with_source(error)
            }
            _ => error,
        })
}

/// Stores under a key that no other caller writes: what is there after an answer was lost is this
/// write's.
pub(crate) async fn store_owned(
    tool: &dyn StateTool,
    key: &str,
    value: &Value,
    ttl: Ttl,
    deadline: Instant,
) -> Result<(), Error> {
    let mut tries = 0;
    let store = || {
        tries += 1;
        tool.store_if(key, value, ttl, 0)
    };
    match repeat(deadline, store).await? {
        StoreOutcome::Conflict { revision } if tries == 1 => {
            let message = format!("{key:?} exists already, though no other writer should use it");
            let operation = 0;
            let kind = ErrorKind::Conflict {
                revision,
                operation,
            };
            Err(Error::new(kind, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
