//! The tries of one call.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use helve_proto::Reason;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::Instrument as _;

use crate::{
    cluster::{
        channel::{Node, Pool},
        limits,
        pace::{Effect, Pace},
        verdict::{Health, Verdict},
    },
    error::{Error, ErrorKind},
    retry::Backoff,
};

/// Tries a call on one node after the other, until it is answered, refused, or out of time.
pub(crate) struct Tries<'a> {
    pool: &'a Pool,
    effect: Effect,
    until: Instant,
    pace: Pace,
    /// Turns true when the client is closed.
    closed: watch::Receiver<bool>,
    backoff: Backoff,
    /// Of tries that a proxy answered.
    behind: Backoff,
    tried: u32,
    /// Nodes, by index, at whose address nothing will answer this call.
    useless: Vec<usize>,
    /// A try had no answer that says it was not done.
    in_doubt: bool,
}

/// What to do after a try that failed.
struct Next {
    node: Arc<Node>,
    pause: Duration,
    error: Error,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(
        pool: &'a Pool,
        effect: Effect,
        until: Instant,
        pace: Pace,
        closed: watch::Receiver<bool>,
    ) -> Self {
        Self {
            pool,
            effect,
            until,
            pace,
            closed,
            backoff: Backoff::between(pace.backoff_first, pace.backoff_max),
            behind: Backoff::behind(),
            tried: 0,
            useless: Vec::new(),
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
            let attempt_left = left.min(self.pace.attempt_timeout);
            self.pace.attempt_timeout = self.pace.attempt_timeout.saturating_mul(2);
            self.tried = self.tried.saturating_add(1);
            let span = tracing::debug_span!("try", address = node.authority(), number = self.tried);
            let tried = tokio::select! {
                tried = attempt(Arc::clone(&node), attempt_left).instrument(span) => tried,
                () = end(&mut self.closed) => {
                    self.in_doubt = true;
                    return Err(self.closed());
                }
            };
            let verdict = match tried {
                Ok(answer) => return Ok((node, answer)),
                Err(verdict) => verdict,
            };
            let next = self.weigh(&node, verdict)?;
            (node, last) = (next.node, next.error);
            // It may be longer than any clock has room for.
            let least = next.pause.saturating_add(self.least());
            if least >= self.until.saturating_duration_since(Instant::now()) {
                return Err(self.out_of_time(last));
            }
            tokio::select! {
                () = sleep(next.pause) => {}
                () = end(&mut self.closed) => {}
            }
        }
    }

    /// What to do next, or the error that ends the call.
    fn weigh(&mut self, node: &Arc<Node>, verdict: Verdict) -> Result<Next, Error> {
        let (error, asked, health) = match verdict {
            Verdict::Refused(error) => return Err(self.refused(error)),
            Verdict::Barred(error) => return Err(self.unless_in_doubt(error)),
            Verdict::Oversized(error) => {
                self.in_doubt = true;
                return Err(self.unless_in_doubt(error));
            }
            Verdict::NotDone { error, pause, node } => (error, pause.unwrap_or_default(), node),
            Verdict::Unknown { error, node } => {
                self.in_doubt = true;
                (error, Duration::ZERO, node)
            }
        };
        if matches!(health, Health::Suspect | Health::Behind | Health::Useless) {
            self.pool.suspect(node);
        }
        if self.tried >= self.pace.tries_max {
            return Err(self.out_of_tries(error));
        }
        if health == Health::Useless {
            self.useless.push(node.index());
        }
        let (next, pause) = match health {
            Health::Narrow => (Some(Arc::clone(node)), Duration::ZERO),
            _ => self.after(node, asked, health),
        };
        // No node is left to ask.
        let Some(next) = next else {
            return Err(self.unless_in_doubt(error));
        };
        tracing::debug!(%error, ?pause, next = next.authority(), "trying again");
        Ok(Next {
            node: next,
            pause,
            error,
        })
    }

    /// The node for the next try, and the pause before it. A proxy asks for a pause of its own, a node for one of the whole cluster.
    fn after(
        &mut self,
        node: &Arc<Node>,
        asked: Duration,
        health: Health,
    ) -> (Option<Arc<Node>>, Duration) {
        let next = self.pool.after(node, &self.useless);
        let is_elsewhere = next
            .as_ref()
            .is_some_and(|next| next.index() != node.index() && !next.is_suspect());
        let pause = match health {
            Health::Behind if is_elsewhere => self.behind.next_pause(),
            Health::Behind => self.behind.next_pause().max(asked),
            _ => self.backoff.next_pause().max(asked),
        };
        (next, pause)
    }

    /// The time that the next try must have. One that is cut off would put in doubt what is certain so far: that nothing was done.
    fn least(&self) -> Duration {
        match self.effect {
            Effect::Lasting if !self.in_doubt => limits::TRY_LEAST,
            _ => Duration::ZERO,
        }
    }

    /// A refusal is final if no earlier try is in doubt, or if it is the replicated outcome, which
    /// every retry is given alike, or depends on the request alone, so that the earlier tries were
    /// refused as well.
    fn refused(&self, error: Error) -> Error {
        // Without a reason it is the transport's word, which may differ from try to try.
        let is_outcome = error.reason().is_some_and(|reason| {
            let kind = error.kind();
            matches!(kind, ErrorKind::Conflict { .. } | ErrorKind::Invalid)
                || reason == Reason::Quota
        });
        if is_outcome {
            return error;
        }
        self.unless_in_doubt(error)
    }

    fn unless_in_doubt(&self, error: Error) -> Error {
        if self.is_ambiguous() {
            return ambiguous(&error);
        }
        error
    }

    fn out_of_time(&self, last: Error) -> Error {
        self.gave_up(last, "within the deadline")
    }

    fn out_of_tries(&self, last: Error) -> Error {
        self.gave_up(last, &format!("in {} tries", self.tried))
    }

    fn gave_up(&self, last: Error, within: &str) -> Error {
        if self.is_ambiguous() {
            return ambiguous(&last);
        }
        if last.kind() == ErrorKind::Overloaded {
            return last;
        }
        let message = format!("no node answered {within}: {last}");
        about(Error::new(ErrorKind::Unavailable, message), &last)
    }

    /// The client was closed meanwhile.
    fn closed(&self) -> Error {
        if self.is_ambiguous() {
            return ambiguous(&Error::closed());
        }
        Error::closed()
    }

    fn is_ambiguous(&self) -> bool {
        self.in_doubt && self.effect == Effect::Lasting
    }
}

/// Returns when the client is closed, or is gone, which no caller can then see.
pub(crate) async fn end(closed: &mut watch::Receiver<bool>) {
    let _gone_or_closed = closed.wait_for(|is_closed| *is_closed).await;
}

fn ambiguous(last: &Error) -> Error {
    let message = format!("the call was sent, and its outcome is not known: {last}");
    let error = Error::new(ErrorKind::Ambiguous, message).with_reason(Reason::Ambiguous);
    about(error, last)
}

/// An error that says what the last try came to.
fn about(mut error: Error, last: &Error) -> Error {
    if last.is_unconnected() {
        error = error.unconnected();
    }
    match last.address() {
        Some(address) => error.at(address),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    mod late;

    use std::sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    };

    use futures::FutureExt as _;
    use serde_json::{Value, json};
    use tokio::time::sleep_until;

    use super::*;
    use crate::{
        cluster::{channel::Hints, dial::Dial, verdict::tests::answers::verdict_of},
        vectors::part,
    };

    const PACE: Pace = Pace {
        attempt_timeout: Duration::from_secs(1),
        backoff_first: Duration::from_millis(5),
        backoff_max: Duration::from_millis(200),
        tries_max: u32::MAX,
    };

    /// Calls once a node that asks for this pause, and then one that answers.
    async fn after_pause(pause: Duration) -> (Result<(), Error>, u32) {
        let nodes = ["a:1".to_owned()];
        let pool = Pool::new(&nodes, Hints::Known, Dial::plain(Duration::from_secs(1))).unwrap();
        let (_open, closed) = watch::channel(false);
        let until = Instant::now() + Duration::from_secs(10);
        let tried = Arc::new(AtomicU32::new(0));
        let tries = Tries::new(&pool, Effect::Lasting, until, PACE, closed);
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

    /// The nodes that a call of the vectors tries, and how it ends.
    async fn played(case: &Value) -> (Vec<usize>, String) {
        let nodes = 0..case["nodes"].as_u64().unwrap();
        let nodes: Vec<String> = nodes.map(|at| format!("n{at}:1")).collect();
        let pool = Pool::new(&nodes, Hints::Known, Dial::plain(Duration::from_secs(1))).unwrap();
        let effect = match case["lasting"].as_bool().unwrap() {
            true => Effect::Lasting,
            false => Effect::Harmless,
        };
        let tries_max = case["tries_max"].as_u64();
        let pace = Pace {
            tries_max: tries_max.map_or(u32::MAX, |max| u32::try_from(max).unwrap()),
            ..PACE
        };
        let (_open, closed) = watch::channel(false);
        let until = Instant::now() + Duration::from_secs(20);
        let tries = Tries::new(&pool, effect, until, pace, closed);
        let on = Arc::new(Mutex::new(Vec::new()));
        let tried = Arc::clone(&on);
        let answers = case["answers"].as_array().unwrap().clone();
        let answer = tries.run(move |node, _| {
            let mut tried = tried.lock().unwrap();
            let answer = answers.get(tried.len()).cloned();
            tried.push(node.index());
            let is_last = tried.len() == answers.len();
            async move {
                let answer = answer.expect("no try follows the last answer");
                if answer == json!("ok") {
                    return Ok(());
                }
                // The deadline ends after the last answer.
                if is_last {
                    sleep_until(until).await;
                }
                Err(verdict_of(&answer).of_small_reply())
            }
            .boxed()
        });
        let ends = match answer.await {
            Ok(_) => "ok".to_owned(),
            // A conflict names its revision as well.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict { .. }) => "Conflict".into(),
            Err(error) => format!("{:?}", error.kind()),
        };
        let on = on.lock().unwrap().clone();
        (on, ends)
    }

    #[tokio::test(start_paused = true)]
    async fn calls_go_from_node_to_node_as_the_vectors_say() {
        for case in part("tries.json", "cases") {
            let (on, ends) = played(&case).await;
            let found = json!({"on": on, "ends": ends});
            let expected = json!({"on": case["on"], "ends": case["ends"]});
            assert_eq!(found, expected, "{case}");
        }
    }
}
