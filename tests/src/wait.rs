//! Waiting on conditions: the only place in the tests that sleeps.

use std::{fmt, thread, time::Duration};

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// How long a test waits for anything while what it sees stays the same. Far beyond what is ever needed: it ends a test that would
/// hang, and asserts no speed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How many times as long it waits at most while what it sees goes on changing: a busy machine is slow, and not broken.
const PATIENCE_WITH_PROGRESS: u32 = 3;

/// How long a single look may take before it counts as one that never comes back. Some do work of their own.
const LOOK: Duration = Duration::from_secs(300);

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
/// When [`PATIENCE`] is over, and nothing else was seen meanwhile; when it is over three times, whatever was seen; or when a look does
/// not come back: `what` was waited for, and what was seen last.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Look<T>) -> Result<T> {
    until_within(PATIENCE, what, look).await
}

/// As [`until`], for what takes the longer the more there is: here `patience` is how long nothing else may be seen.
///
/// # Errors
///
/// As [`until`].
pub async fn until_within<T>(
    patience: Duration,
    what: &str,
    look: impl AsyncFnMut() -> Look<T>,
) -> Result<T> {
    let limits = Limits {
        patience,
        look: LOOK,
    };
    within(limits, what, look).await
}

/// Lets so much time pass, for a fault to last: nothing is waited for, and nothing follows from its being over.
pub async fn hold(time: Duration) {
    sleep(time).await;
}

/// As [`until`], for what holds up its thread: the end of a process, or of a thread. It looks on while the system does the work.
///
/// # Errors
///
/// When `limit` is over: `what` was waited for.
pub fn block_until<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Look<T>) -> Result<T> {
    let deadline = std::time::Instant::now() + limit;
    loop {
        match look() {
            Look::Done(value) => return Ok(value),
            Look::NotYet(seen) if std::time::Instant::now() >= deadline => {
                bail!("waited {limit:?} for {what}; last seen: {seen}")
            }
            Look::NotYet(_) => thread::sleep(PAUSE / 4),
        }
    }
}

/// How long to wait.
#[derive(Debug, Clone, Copy)]
struct Limits {
    patience: Duration,
    look: Duration,
}

async fn within<T>(
    limits: Limits,
    what: &str,
    mut look: impl AsyncFnMut() -> Look<T>,
) -> Result<T> {
    let Limits {
        patience,
        look: limit,
    } = limits;
    let begun = Instant::now();
    let last_deadline = begun + patience * PATIENCE_WITH_PROGRESS;
    let mut deadline = begun + patience;
    let mut last = String::new();
    loop {
        let looked = timeout_at(Instant::now() + limit, look()).await;
        let Ok(looked) = looked else {
            bail!("a look at {what} did not come back in {limit:?}; seen before: {last}");
        };
        let now = Instant::now();
        match looked {
            Look::Done(value) => return Ok(value),
            Look::NotYet(seen) => {
                if seen != last {
                    deadline = last_deadline.min(now + patience);
                }
                last = seen;
            }
        }
        if now >= deadline {
            let waited = begun.elapsed();
            bail!("waited {waited:?} for {what}; last seen: {last}");
        }
        sleep(PAUSE).await;
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

    fn limits(patience_ms: u64, look_ms: u64) -> Limits {
        Limits {
            patience: Duration::from_millis(patience_ms),
            look: Duration::from_millis(look_ms),
        }
    }

    #[tokio::test]
    async fn what_never_holds_is_named_when_patience_ends() {
        let error = within(limits(0, 1000), "the sun", async || {
            Look::<()>::NotYet("rain".to_owned())
        })
        .await
        .expect_err("it never holds");
        assert!(
            error.to_string().contains("the sun") && error.to_string().contains("rain"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_wait_goes_on_while_what_is_seen_changes() {
        let (begun, mut clouds) = (Instant::now(), 0);
        let waited = within(limits(1000, 1000), "the sun", async || {
            clouds += 1;
            if begun.elapsed() > Duration::from_millis(1500) {
                Look::Done(())
            } else {
                Look::NotYet(format!("cloud {clouds}"))
            }
        });
        waited.await.expect("clouds went by");
    }

    #[tokio::test]
    async fn a_look_that_never_comes_back_ends_the_wait() {
        let error = within(limits(1000, 10), "the sun", async || {
            std::future::pending::<Look<()>>().await
        })
        .await
        .expect_err("it never comes back");
        assert!(error.to_string().contains("did not come back"), "{error}");
    }

    #[test]
    fn what_holds_up_its_thread_is_bounded_too() {
        let error = block_until(Duration::ZERO, "the sun", || {
            Look::<()>::NotYet("rain".to_owned())
        });
        let error = error.expect_err("it never holds").to_string();
        assert!(
            error.contains("the sun") && error.contains("rain"),
            "{error}"
        );
    }
}
