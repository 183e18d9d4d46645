//! How the cluster's time moves towards the walls.
//!
//! Near walls are followed slowly, by one part in 2,000. Time that is further off than [`SKEW_MAX`] from what a majority of walls
//! says returns to them once they have said so for [`CONFIRM`]: forward by up to an hour a second, backward by running at half speed,
//! so that it never falls.
//!
//! What that costs a deadline: forward, a record loses at most what the walls were ahead when it was written, which is real time that
//! has passed unseen, or that the walls lacked then. Backward, it lives at most twice as long as it was to. A wrong majority moves
//! time by at most an hour for each second that it lasts beyond [`CONFIRM`].

use std::{
    cmp::Ordering,
    time::{Duration, Instant},
};

use helve_machine::planted::{self, Plant};

use super::sighting::{SKEW_MAX, Sighting, ms, signed};

/// How long a majority of walls must have said the same before the time returns to them: a jump that is taken back changes nothing.
pub(super) const CONFIRM: Duration = Duration::from_secs(5);

/// Milliseconds that time gains at most in one of real time while it returns forward: an hour a second.
const FORWARD_MS: u64 = 3_600;

/// Time that returns backward loses one part in this many of the time that passes.
const BACKWARD_PARTS: u64 = 2;

/// Time approaches walls that are near by one part in this many of the time that passes.
const NEAR_PARTS: u64 = 2_000;

/// Time that is as near to the walls has met them: how exactly they are known depends on how long answers take.
const MET_MS: u64 = 100;

/// What walls said longer ago is not followed.
const FRESH: Duration = Duration::from_secs(2);

/// How often a long return is reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Where one leader's time is going.
#[derive(Debug)]
pub(super) struct Course {
    /// What a majority of walls said last.
    agreed: Option<Sighting>,
    state: State,
    /// All movement up to here has been made.
    moved_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No majority of walls is far from the time.
    Steady,
    /// One has been, since then.
    Doubtful(Instant),
    /// Time returns to it; reported last then.
    Returning(Instant),
}

impl Course {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            agreed: None,
            state: State::Steady,
            moved_at: now,
        }
    }

    /// Takes in what a majority of walls says now, `None` if none agrees, while the cluster's time is `time_ms`.
    pub(super) fn look(&mut self, now: Instant, agreed_ms: Option<u64>, time_ms: u64) {
        let jumped = |wall: u64| {
            let before = self.agreed.map(|agreed| agreed.extrapolated(now));
            before.is_none_or(|before| before.abs_diff(wall) > ms(SKEW_MAX))
        };
        let next = match (self.state, agreed_ms) {
            (_, None) => State::Steady,
            (State::Returning(_), Some(wall)) if wall.abs_diff(time_ms) <= MET_MS => State::Steady,
            (State::Steady | State::Doubtful(_), Some(wall))
                if wall.abs_diff(time_ms) <= ms(SKEW_MAX) =>
            {
                State::Steady
            }
            (_, Some(wall)) if jumped(wall) => State::Doubtful(now),
            (State::Steady, Some(_)) => State::Doubtful(now),
            (State::Doubtful(since), Some(_))
                if now.saturating_duration_since(since) >= CONFIRM =>
            {
                State::Returning(now)
            }
            (State::Returning(at), Some(_))
                if now.saturating_duration_since(at) >= REPORT_EVERY =>
            {
                State::Returning(now)
            }
            (state, Some(_)) => state,
        };
        if next != self.state {
            report(self.state, next, agreed_ms, time_ms);
            if !self.is_returning() {
                self.moved_at = now;
            }
        }
        self.state = next;
        self.agreed = agreed_ms.map(|time_ms| Sighting { at: now, time_ms });
    }

    /// How far time moves, beside passing, from `time_ms` where it is now; `wall_ms` is the leader's own wall.
    pub(super) fn step(&mut self, now: Instant, time_ms: u64, wall_ms: u64) -> i64 {
        let fresh = |agreed: &Sighting| now.saturating_duration_since(agreed.at) <= FRESH;
        let agreed = self.agreed.filter(fresh);
        let agreed = agreed.map(|agreed| agreed.extrapolated(now));
        let target = match (self.state, agreed) {
            (State::Returning(_), _) if planted::is(Plant::TimeStays) => None,
            (State::Returning(_), agreed) => agreed,
            (_, agreed) => Some(agreed.unwrap_or(wall_ms))
                .filter(|wall| wall.abs_diff(time_ms) <= ms(SKEW_MAX)),
        };
        let Some(target) = target else {
            self.moved_at = now;
            return 0;
        };
        let distance = target.abs_diff(time_ms);
        let moved = self.allowance(now, target.cmp(&time_ms)).min(distance);
        let moved = i64::try_from(moved).unwrap_or(i64::MAX);
        if target > time_ms { moved } else { -moved }
    }

    fn is_returning(&self) -> bool {
        matches!(self.state, State::Returning(_))
    }

    /// Milliseconds that time may have been moved since it was moved last. What passed of a whole one is kept for the next time.
    fn allowance(&mut self, now: Instant, way: Ordering) -> u64 {
        let passed = ms(now.saturating_duration_since(self.moved_at));
        let (allowed, used) = match (self.is_returning(), way == Ordering::Greater) {
            (true, true) => (passed.saturating_mul(FORWARD_MS), passed),
            (true, false) => (passed / BACKWARD_PARTS, passed - passed % BACKWARD_PARTS),
            (false, _) => (passed / NEAR_PARTS, passed - passed % NEAR_PARTS),
        };
        self.moved_at += Duration::from_millis(used);
        allowed
    }
}

fn report(before: State, next: State, agreed_ms: Option<u64>, time_ms: u64) {
    let ahead_ms = agreed_ms.map_or(0, |wall| signed(wall, time_ms));
    match (before, next) {
        (State::Returning(_), State::Steady) if agreed_ms.is_some() => {
            tracing::info!("the cluster's time has met the nodes' wall clocks");
        }
        (State::Returning(_), State::Steady | State::Doubtful(_)) => tracing::warn!(
            "the cluster's time stops returning to the nodes' wall clocks: no majority of them agrees any more, or they jumped"
        ),
        (_, State::Returning(_)) => tracing::warn!(
            ahead_ms,
            "a majority of the nodes' wall clocks agree with each other and not with the cluster's time, which returns to them"
        ),
        (State::Steady, State::Doubtful(_)) => tracing::info!(
            ahead_ms,
            "a majority of the nodes' wall clocks agree with each other and not with the cluster's time"
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
