//! One leader's time, from when it takes office.

use std::time::{Duration, Instant};

use super::{
    course::Course,
    sighting::{SKEW_MAX, Sighting, ms},
    walls::{self, Walls},
};

/// Beyond this distance between wall and replicated clock, a wall that has to be trusted is reported.
const OUTLIER: Duration = Duration::from_secs(24 * 3600);

/// One term in which this node leads.
#[derive(Debug)]
pub(super) struct Office {
    pub(super) term: u64,
    pub(super) course: Course,
    /// How far the wall that it had to trust was from the replicated clock, if that was alarming; else 0.
    pub(super) jump_ms: u64,
    anchor: Sighting,
    last_ms: u64,
}

impl Office {
    /// Begins by what this node has `seen` of the leader's time before, or else by the walls that it knows.
    pub(super) fn begin(
        term: u64,
        seen: Option<Sighting>,
        walls: &mut Walls,
        clock_ms: u64,
        now: Instant,
        wall_ms: u64,
    ) -> Self {
        let trusted_ms = walls::trusted(&walls.fresh(now), wall_ms, clock_ms);
        if seen.is_none() && trusted_ms != wall_ms {
            tracing::warn!(
                wall_ms,
                trusted_ms,
                clock_ms,
                "no node can vouch for the time, and a voter's wall clock that is far from this one's is nearer to the replicated clock: that one is believed"
            );
        }
        Self {
            term,
            course: Course::new(now),
            jump_ms: jump(seen, clock_ms, trusted_ms),
            anchor: Sighting {
                at: now,
                time_ms: match seen {
                    Some(seen) => anchor(seen, clock_ms, now, wall_ms),
                    None => trusted_ms.max(clock_ms),
                },
            },
            last_ms: 0,
        }
    }

    /// The next stamp: never below `clock_ms`, never falling.
    pub(super) fn stamp(&mut self, clock_ms: u64, now: Instant, wall_ms: u64) -> u64 {
        let current = self.anchor.extrapolated(now);
        let moved = self.course.step(now, current, wall_ms);
        self.anchor.time_ms = self.anchor.time_ms.saturating_add_signed(moved);
        let time_ms = self.anchor.extrapolated(now);
        self.last_ms = time_ms.max(clock_ms).max(self.last_ms);
        self.last_ms
    }
}

/// Where the time of an office starts that follows others.
fn anchor(seen: Sighting, clock_ms: u64, now: Instant, wall_ms: u64) -> u64 {
    let now_ms = seen.extrapolated(now);
    // Held to the skew's end instead, a wild wall would move time by that much with every election.
    let is_near = wall_ms.abs_diff(now_ms) <= ms(SKEW_MAX);
    clock_ms.max(if is_near { wall_ms } else { now_ms })
}

/// How far a wall that has to be trusted is from the replicated clock, if that is alarming.
fn jump(seen: Option<Sighting>, clock_ms: u64, wall_ms: u64) -> u64 {
    let distance = wall_ms.abs_diff(clock_ms);
    if seen.is_some() || clock_ms == 0 || distance <= ms(OUTLIER) {
        return 0;
    }
    tracing::error!(
        wall_ms,
        clock_ms,
        "no node can vouch for the time, and this wall clock is far from the replicated clock: check it"
    );
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_900_000_000_000;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_new_office_follows_a_near_wall_and_no_wild_one() {
        let start = Instant::now();
        let seen = Sighting {
            at: start,
            time_ms: WALL,
        };
        let year = 365 * 24 * 3600 * 1000;
        let anchored = |seconds, wall_ms| anchor(seen, WALL, after(start, seconds), wall_ms);
        assert_eq!(anchored(2, WALL + year), WALL + 2_000);
        assert_eq!(anchored(2, WALL - year), WALL + 2_000);
        // An idle cluster's clock does not move, its time does.
        assert_eq!(anchored(3600, WALL - year), WALL + 3_600_000);
        assert_eq!(anchored(2, WALL + 2_500), WALL + 2_500);
        assert_eq!(anchored(2, WALL - 2_500), WALL);
    }

    #[test]
    fn wall_is_trusted_only_when_no_other_can_vouch() {
        let now = Instant::now();
        let began = |wall_ms| {
            let mut office = Office::begin(1, None, &mut Walls::default(), WALL, now, wall_ms);
            office.stamp(WALL, now, wall_ms)
        };
        assert_eq!(began(WALL + 3_600_000), WALL + 3_600_000);
        assert_eq!(began(WALL - 3_600_000), WALL);
    }

    #[test]
    fn a_wild_wall_is_not_trusted_where_a_voter_knows_better() {
        let now = Instant::now();
        let mut walls = Walls::default();
        walls.note(2, now, now, WALL + 60_000);
        let year = 365 * 24 * 3600 * 1000;
        let mut office = Office::begin(1, None, &mut walls, WALL, now, WALL + year);
        assert_eq!(office.stamp(WALL, now, WALL + year), WALL + 60_000);
        assert_eq!(office.jump_ms, 0);
    }
}
