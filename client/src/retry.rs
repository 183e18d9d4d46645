//! How long to wait before the next try.

use std::time::Duration;

/// Pauses that double up to a bound, each drawn from the upper half, so that callers that collided once spread out.
#[derive(Debug, Clone)]
pub struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    /// From one bound to another; at least a millisecond, and never backward.
    #[cfg(feature = "cluster")]
    pub(crate) fn between(first: Duration, max: Duration) -> Self {
        let next = first.max(Duration::from_millis(1));
        Self {
            next,
            max: max.max(next),
        }
    }

    /// Between tries of one call that a proxy answered in a node's place. It does so for every call of every client, so they spread out
    /// further than those to nodes.
    #[cfg(feature = "cluster")]
    pub(crate) fn behind() -> Self {
        Self::between(Duration::from_millis(50), Duration::from_secs(1))
    }

    /// From 1 to 50 ms: between rounds of one update that others got ahead of.
    #[must_use]
    pub fn contention() -> Self {
        Self {
            next: Duration::from_millis(1),
            max: Duration::from_millis(50),
        }
    }

    /// Between looks at a guard that another holds, who needs it for about as long as an HTTP request takes.
    pub(crate) fn guard() -> Self {
        Self {
            next: Duration::from_millis(10),
            max: Duration::from_millis(200),
        }
    }

    /// Returns the next pause.
    pub fn next_pause(&mut self) -> Duration {
        let half = self.next / 2;
        self.next = (self.next * 2).min(self.max);
        half + half.mul_f64(f64::from(draw()) / f64::from(u32::MAX))
    }
}

/// Without randomness the pauses are still right, only not spread.
fn draw() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_within_their_half_up_to_the_bound() {
        let mut backoff = Backoff::contention();
        for bound_ms in [1, 2, 4, 8, 16, 32, 50, 50] {
            let (bound, pause) = (Duration::from_millis(bound_ms), backoff.next_pause());
            assert!(
                bound / 2 <= pause && pause <= bound,
                "{pause:?} of {bound:?}"
            );
        }
    }
}
