//! Waiting on conditions: the only place in the tests that sleeps.

use std::{fmt, time::Duration};

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// How long a test waits for anything. Far beyond what is ever needed: it ends a test that would hang, and asserts no speed.
pub const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(20);

/// What one look at a condition came to.
pub enum Look<T> {
    /// It holds.
    Done(T),
    /// It does not hold yet, and this is what was seen.
    NotYet(String),
}

impl<T> Look<T> {
    /// An error counts as "not yet": a node that is away may come back.
    pub fn of<E: fmt::Display>(result: Result<T, E>) -> Self {
        result.map_or_else(|error| Self::NotYet(error.to_string()), Self::Done)
    }
}

/// Looks again and again until the condition holds.
///
/// # Errors
///
/// When [`PATIENCE`] is over: `what` was waited for, and what was seen last.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Look<T>) -> Result<T> {
    within(PATIENCE, what, look).await
}

/// Lets so much time pass, for a fault to last: nothing is waited for, and nothing follows from its being over.
pub async fn hold(time: Duration) {
    sleep(time).await;
}

async fn within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Look<T>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match look().await {
            Look::Done(value) => return Ok(value),
            Look::NotYet(seen) if Instant::now() >= deadline => {
                bail!("waited {patience:?} for {what}; last seen: {seen}")
            }
            Look::NotYet(_) => sleep(PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_is_looked_at_until_it_holds() {
        let mut looks = 0;
        let third = until("the third look", async || {
            looks += 1;
            if looks == 3 {
                Look::Done(looks)
            } else {
                Look::NotYet(format!("look {looks}"))
            }
        });
        assert_eq!(third.await.ok(), Some(3));
    }

    #[tokio::test]
    async fn what_never_holds_is_named_when_patience_ends() {
        let error = within(Duration::ZERO, "the sun", async || {
            Look::<()>::NotYet("rain".to_owned())
        })
        .await
        .expect_err("it never holds");
        assert!(
            error.to_string().contains("the sun") && error.to_string().contains("rain"),
            "{error}"
        );
    }
}
