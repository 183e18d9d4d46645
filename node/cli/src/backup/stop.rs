//! A stop that a signal asks for while a command works at a place for backups.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    time::Duration,
};

use anyhow::anyhow;
use helve_command::{
    ending::{Ending, said},
    output::{self, time},
    signals::{Signals, StopSignal},
};
use helve_node::{backup::place::Place, stamp::wall_ms};
use helve_proto::shown_url;
use tokio::time::timeout;

/// How long each step of cleaning up may take behind a signal.
const STEP_MAX: Duration = Duration::from_secs(3);

/// Why a mark is left whose removal was not answered in time.
pub(super) const NO_ANSWER: &str = "the store has not answered in time";

/// Waits for the first signal that asks to stop.
pub(super) struct Stop {
    signal: Pin<Box<dyn Future<Output = StopSignal>>>,
    asked: Option<StopSignal>,
    /// How long each step that should come to its end may take behind it.
    step_max: Duration,
}

impl Stop {
    /// From now on, signals no longer end the process.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(super) fn listen() -> Result<Self, Ending> {
        let signals = Signals::to_stop().and_then(Signals::and_hangup);
        let mut signals = signals.map_err(|error| Ending::Fatal(error.into()))?;
        Ok(Self::when(async move { signals.recv().await }))
    }

    /// For a command that may leave a mark at a place. Where it leaves none, signals end the process
    /// at once, as the operating system lets go of a directory.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(super) fn if_marked(at: &Path) -> Result<Self, Ending> {
        if Place::is_marked(at) {
            Self::listen()
        } else {
            Ok(Self::when(std::future::pending()))
        }
    }

    fn when(signal: impl Future<Output = StopSignal> + 'static) -> Self {
        Self {
            signal: Box::pin(signal),
            asked: None,
            step_max: STEP_MAX,
        }
    }

    /// Waits for the signal, and names it. It is kept.
    pub(super) async fn asked(&mut self) -> StopSignal {
        if let Some(signal) = self.asked {
            return signal;
        }
        let signal = self.signal.as_mut().await;
        *self.asked.insert(signal)
    }

    /// Carries out a step that may be cut off anywhere; `None` if a signal asks to stop first.
    pub(super) async fn unless<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.asked() => None,
            done = step => Some(done),
        }
    }

    /// Carries out a step that should come to its end. Behind a signal it has [`STEP_MAX`]; `None`
    /// if that is over.
    pub(super) async fn let_end<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        let mut step = pin!(step);
        tokio::select! {
            done = &mut step => return Some(done),
            _ = self.asked() => {}
        }
        timeout(self.step_max, step).await.ok()
    }

    /// How a command ends that the signal has stopped: `what` says what is done of it, and the next step.
    pub(super) async fn ending(&mut self, what: &impl Display) -> Ending {
        let signal = self.asked().await;
        Ending::Stopped(signal, anyhow!("stopped by {signal}: {what}"))
    }
}

/// Ends the work at a place, and says so if the command's mark is left there.
pub(super) async fn close(place: Place, stop: &mut Stop) {
    let mark = place.mark();
    let why = match stop.let_end(place.close()).await {
        Some(Ok(())) => return,
        Some(Err(left)) => said(&left),
        None => NO_ANSWER.to_owned(),
    };
    say_left(mark, &why);
}

/// Says that a mark is left.
pub(super) fn say_left(mark: Option<(PathBuf, u64)>, why: &str) {
    let Some((mark, until_ms)) = mark else {
        return;
    };
    output::say(format_args!(
        "the mark of this command is left, and keeps others off until {}: {}: {why}",
        time(until_ms),
        mark.display()
    ));
}

/// Says that a mark may be left of a command that was stopped while it put it.
pub(super) fn say_unknown(to: &Path, lasts: Duration) {
    let most_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
    output::say(format_args!(
        "a mark of this command may be left in {} below running/, and keeps others off until {}: {NO_ANSWER}",
        shown_url(&to.display().to_string()),
        time(wall_ms().saturating_add(most_ms))
    ));
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn step_ends_where_no_signal_comes() {
        let mut stop = Stop::when(pending());
        assert_eq!(stop.unless(ready(1)).await, Some(1));
        assert_eq!(stop.let_end(ready(2)).await, Some(2));
    }

    #[tokio::test]
    async fn step_that_may_be_cut_off_ends_with_the_signal() {
        let mut stop = Stop::when(async {
            yield_now().await;
            StopSignal::Terminate
        });
        assert_eq!(stop.unless(pending::<()>()).await, None);
        assert_eq!(stop.unless(ready(1)).await, None, "the signal is kept");
        assert_eq!(stop.asked().await, StopSignal::Terminate);
        let ending = stop.ending(&"nothing was done").await;
        assert_eq!(ending.status(), 143);
        assert_eq!(
            ending.error().to_string(),
            "stopped by SIGTERM: nothing was done"
        );
    }

    #[tokio::test]
    async fn step_that_should_end_has_some_time_behind_the_signal() {
        let mut stop = Stop::when(ready(StopSignal::Interrupt));
        let removal = async {
            yield_now().await;
            1
        };
        assert_eq!(stop.let_end(removal).await, Some(1));
        stop.step_max = Duration::ZERO;
        assert_eq!(stop.let_end(pending::<()>()).await, None);
    }
}
