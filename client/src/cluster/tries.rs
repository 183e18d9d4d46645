//! The tries of one call.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use helve_proto::Reason;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    channel::{Node, Pool},
    error::{Error, ErrorKind},
    retry::Backoff,
    verdict::{Health, Verdict},
};

/// Whether a try that had no answer may have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It reads, or what it does may be done twice.
    Harmless,
    /// It may have: the call must be repeated under its identity, and if that fails its outcome is ambiguous.
    Lasting,
}

/// Tries a call on one node after the other, until it is answered, refused, or out of time.
pub(crate) struct Tries<'a> {
    pool: &'a Pool,
    effect: Effect,
    until: Instant,
    attempt_timeout: Duration,
    /// Turns true when the client is closed.
    closed: watch::Receiver<bool>,
    backoff: Backoff,
    /// A try had no answer that says it was not done.
    in_doubt: bool,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(
        pool: &'a Pool,
        effect: Effect,
        until: Instant,
        attempt_timeout: Duration,
        closed: watch::Receiver<bool>,
    ) -> Self {
        Self {
            pool,
            effect,
            until,
            attempt_timeout,
            closed,
            backoff: Backoff::unavailable(),
            in_doubt: false,
        }
    }

    /// `attempt` is given a node and how long it may take.
    pub(crate) async fn run<A>(
        mut self,
        attempt: impl Fn(Arc<Node>, Duration) -> BoxFuture<'static, Result<A, Verdict>> + Send,
    ) -> Result<(Arc<Node>, A), Error> {
        let mut node = self.pool.preferred();
        let mut last = Error::new(ErrorKind::Unavailable, "no time was left to send the call");
        loop {
            if *self.closed.borrow() {
                return Err(self.closed());
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.out_of_time(last));
            }
            let attempt_left = left.min(self.attempt_timeout);
            self.attempt_timeout = self.attempt_timeout.saturating_mul(2);
            let tried = tokio::select! {
                tried = attempt(Arc::clone(&node), attempt_left) => tried,
                () = end(&mut self.closed) => {
                    self.in_doubt = true;
                    return Err(self.closed());
                }
            };
            let verdict = match tried {
                Ok(answer) => return Ok((node, answer)),
                Err(verdict) => verdict,
            };
            let (error, pause) = self.weigh(&node, verdict)?;
            last = error;
            // A node may ask for a pause longer than any clock has room for.
            if pause >= self.until.saturating_duration_since(Instant::now()) {
                return Err(self.out_of_time(last));
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = end(&mut self.closed) => {}
            }
            node = self.pool.after(&node);
        }
    }

    /// The error to remember and the pause before the next try, or the error that ends the call.
    fn weigh(&mut self, node: &Node, verdict: Verdict) -> Result<(Error, Duration), Error> {
        let (error, pause, health) = match verdict {
            Verdict::Refused(error) => return Err(self.refused(error)),
            Verdict::NotDone { error, pause, node } => (error, pause, node),
            Verdict::Unknown { error, node } => {
                self.in_doubt = true;
                (error, None, node)
            }
        };
        if health == Health::Suspect {
            self.pool.suspect(node);
        }
        let pause = self.backoff.next().max(pause.unwrap_or_default());
        tracing::debug!(%error, ?pause, "trying again on another node");
        Ok((error, pause))
    }

    /// A refusal stands if no earlier try is in doubt, or if it is the replicated outcome, which every retry is given alike, or
    /// depends on the request alone, so that the earlier tries were refused as well.
    fn refused(&self, error: Error) -> Error {
        // Without a reason it is the transport's word, which may differ from try to try.
        let is_outcome = error.reason().is_some_and(|reason| {
            let kind = error.kind();
            matches!(kind, ErrorKind::Conflict { .. } | ErrorKind::Invalid)
                || reason == Reason::Quota
        });
        if is_outcome || !self.is_ambiguous() {
            return error;
        }
        ambiguous(error)
    }

    fn out_of_time(&self, last: Error) -> Error {
        if self.is_ambiguous() {
            return ambiguous(last);
        }
        if last.kind() == ErrorKind::Overloaded {
            return last;
        }
        let message = format!("no node answered within the deadline; the last try: {last}");
        Error::new(ErrorKind::Unavailable, message).with_source(last)
    }

    /// The client was closed meanwhile.
    fn closed(&self) -> Error {
        if self.is_ambiguous() {
            return ambiguous(Error::closed());
        }
        Error::closed()
    }

    fn is_ambiguous(&self) -> bool {
        self.in_doubt && self.effect == Effect::Lasting
    }
}

/// Returns when the client is closed, or is gone, which nobody can then see.
pub(crate) async fn end(closed: &mut watch::Receiver<bool>) {
    let _gone_or_closed = closed.wait_for(|is_closed| *is_closed).await;
}

fn ambiguous(last: Error) -> Error {
    let message = format!("the call was sent, and its outcome is not known; the last try: {last}");
    Error::new(ErrorKind::Ambiguous, message)
        .with_reason(Reason::Ambiguous)
        .with_source(last)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt as _;

    use super::*;
    use crate::channel::Hints;

    /// Calls once a node that asks for this pause, and then one that answers.
    async fn after_pause(pause: Duration) -> (Result<(), Error>, u32) {
        let nodes = ["a:1".to_owned()];
        let pool = Pool::new(&nodes, Hints::Known, Duration::from_secs(1)).unwrap();
        let (_open, closed) = watch::channel(false);
        let until = Instant::now() + Duration::from_secs(10);
        let tried = Arc::new(AtomicU32::new(0));
        let tries = Tries::new(
            &pool,
            Effect::Lasting,
            until,
            Duration::from_secs(1),
            closed,
        );
        let counted = Arc::clone(&tried);
        let answer = tries.run(move |_, _| {
            let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if !first {
                    return Ok(());
                }
                Err(Verdict::NotDone {
                    error: Error::new(ErrorKind::Overloaded, "too much is under way"),
                    pause: Some(pause),
                    node: Health::Sound,
                })
            }
            .boxed()
        });
        let answer = answer.await.map(drop);
        (answer, tried.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_asks_for_a_pause_is_given_it() {
        let (began, pause) = (Instant::now(), Duration::from_secs(3));
        let (answer, tried) = after_pause(pause).await;
        assert!(answer.is_ok());
        assert_eq!(tried, 2);
        assert!(began.elapsed() >= pause);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_beyond_the_deadline_ends_the_call_at_once_however_long_it_is() {
        for pause in [Duration::from_secs(11), Duration::MAX] {
            let (answer, tried) = after_pause(pause).await;
            let error = answer.unwrap_err();
            assert_eq!((error.kind(), tried), (ErrorKind::Overloaded, 1));
        }
    }
}
