//! What the wall clocks of the voters say together.
//!
//! The leader hears of them in answers that are sent anyway: to heartbeats and to requests for votes. A majority of walls that agree
//! is right about the time as far as a cluster can know it, whatever a minority says.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use super::sighting::{SKEW_MAX, Sighting, ms};

/// A wall that was heard longer ago counts no more: its node may be cut off, or suspended.
pub(super) const FRESH: Duration = Duration::from_secs(2);

/// An answer that took longer says too little of its wall: it may have been kept anywhere on the way.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

/// The last that was heard of each node's wall.
#[derive(Debug, Default)]
pub(super) struct Walls(BTreeMap<u64, Sighting>);

impl Walls {
    /// Notes a wall from an answer to what was asked at `asked`; 0: the node did not say.
    pub(super) fn note(&mut self, id: u64, asked: Instant, now: Instant, wall_ms: u64) {
        if wall_ms > 0 && now.saturating_duration_since(asked) <= ROUND_TRIP_MAX {
            let time_ms = wall_ms;
            self.0.insert(id, Sighting { at: now, time_ms });
        }
    }

    /// What each wall that was heard lately says now, and drops the others.
    pub(super) fn fresh(&mut self, now: Instant) -> BTreeMap<u64, u64> {
        self.0
            .retain(|_, wall| now.saturating_duration_since(wall.at) <= FRESH);
        let walls = self.0.iter();
        walls
            .map(|(&id, wall)| (id, wall.extrapolated(now)))
            .collect()
    }
}

/// What a majority of walls that agree with each other within [`SKEW_MAX`] says, nearest to `time_ms`; `None` if there is no such
/// majority.
///
/// While a change of members is half done there are two sets of voters, and it has to be a majority of each. A voter whose wall is
/// not known agrees with none.
pub(super) fn agreed(
    walls: &BTreeMap<u64, u64>,
    voters: &[BTreeSet<u64>],
    time_ms: u64,
) -> Option<u64> {
    let mut sorted: Vec<(u64, u64)> = walls.iter().map(|(&id, &wall)| (wall, id)).collect();
    sorted.retain(|(_, id)| voters.iter().any(|set| set.contains(id)));
    sorted.sort_unstable();
    let from_each = (0..sorted.len()).filter_map(|first| {
        let earliest = sorted[first].0;
        let together: Vec<_> = sorted[first..]
            .iter()
            .take_while(|(wall, _)| wall - earliest <= ms(SKEW_MAX))
            .collect();
        let latest = together.last()?.0;
        let ids: BTreeSet<u64> = together.iter().map(|(_, id)| *id).collect();
        is_majority(&ids, voters).then(|| time_ms.clamp(earliest, latest))
    });
    from_each.min_by_key(|wall| wall.abs_diff(time_ms))
}

fn is_majority(ids: &BTreeSet<u64>, voters: &[BTreeSet<u64>]) -> bool {
    let of = |set: &BTreeSet<u64>| set.intersection(ids).count() * 2 > set.len();
    !voters.is_empty() && voters.iter().all(of)
}

/// What a leader trusts if no other node can vouch for the time: its own wall, unless another one
/// that it knows is further off from it than [`SKEW_MAX`]. Then one of them is wild, and the one
/// nearer to the replicated clock is believed.
pub(super) fn trusted(walls: &BTreeMap<u64, u64>, own_ms: u64, clock_ms: u64) -> u64 {
    let others = walls.values().copied();
    let contrary = others.filter(|wall| wall.abs_diff(own_ms) > ms(SKEW_MAX));
    let nearest = contrary.min_by_key(|wall| wall.abs_diff(clock_ms));
    nearest
        .filter(|wall| wall.abs_diff(clock_ms) < own_ms.abs_diff(clock_ms))
        .unwrap_or(own_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 1_900_000_000_000;
    const HOUR: i64 = 3_600_000;

    /// What a majority says of these walls, each as its distance from the time, and where it is that far off itself.
    fn off(walls: &[(u64, i64)], voters: &[&[u64]]) -> Option<i64> {
        let walls = walls
            .iter()
            .map(|&(id, off_ms)| (id, TIME.saturating_add_signed(off_ms)))
            .collect();
        let voters: Vec<_> = voters
            .iter()
            .map(|set| set.iter().copied().collect())
            .collect();
        let agreed = agreed(&walls, &voters, TIME)?;
        Some(crate::stamp::sighting::signed(agreed, TIME))
    }

    #[test]
    fn two_of_three_walls_that_agree_are_a_majority_and_the_wild_one_is_not_heard() {
        let three: &[&[u64]] = &[&[1, 2, 3]];
        assert_eq!(off(&[(1, HOUR), (2, HOUR), (3, 0)], three), Some(HOUR));
        assert_eq!(off(&[(1, -HOUR), (2, 0), (3, -HOUR)], three), Some(-HOUR));
        assert_eq!(
            off(&[(1, 99 * HOUR), (2, HOUR), (3, HOUR)], three),
            Some(HOUR)
        );
        assert_eq!(off(&[(1, 99 * HOUR), (2, 0), (3, 0)], three), Some(0));
        assert_eq!(off(&[(1, -HOUR), (2, 0), (3, HOUR)], three), None);
    }

    #[test]
    fn three_of_five_walls_are_needed() {
        let five: &[&[u64]] = &[&[1, 2, 3, 4, 5]];
        let two = [(1, HOUR), (2, HOUR), (3, 0), (4, 5 * HOUR), (5, -HOUR)];
        assert_eq!(off(&two, five), None);
        let three = [(1, HOUR), (2, HOUR), (3, HOUR), (4, 0), (5, 0)];
        assert_eq!(off(&three, five), Some(HOUR));
    }

    #[test]
    fn walls_that_are_not_known_count_as_voters_that_do_not_agree() {
        assert_eq!(off(&[(1, HOUR)], &[&[1, 2, 3]]), None);
        assert_eq!(off(&[(1, HOUR), (2, HOUR)], &[&[1, 2, 3, 4]]), None);
        assert_eq!(off(&[(1, HOUR), (2, HOUR)], &[&[1, 2, 3]]), Some(HOUR));
        assert_eq!(off(&[], &[&[1, 2, 3]]), None);
        assert_eq!(off(&[(1, HOUR)], &[]), None);
    }

    #[test]
    fn the_wall_of_a_learner_or_a_stranger_does_not_count() {
        let walls = [(1, 0), (7, HOUR), (8, HOUR), (9, HOUR)];
        assert_eq!(off(&walls, &[&[1, 2, 3]]), None);
        // Nor does it widen what the walls of voters say together.
        let walls = [(1, 5_000), (2, 6_000), (7, 0)];
        assert_eq!(off(&walls, &[&[1, 2, 3]]), Some(5_000));
    }

    #[test]
    fn one_node_is_its_own_majority_and_two_must_agree() {
        assert_eq!(off(&[(1, HOUR)], &[&[1]]), Some(HOUR));
        assert_eq!(off(&[(1, HOUR), (2, 0)], &[&[1, 2]]), None);
        assert_eq!(off(&[(1, HOUR), (2, HOUR)], &[&[1, 2]]), Some(HOUR));
    }

    #[test]
    fn a_half_done_change_of_members_needs_a_majority_of_both_sets() {
        let joint: &[&[u64]] = &[&[1, 2, 3], &[3, 4, 5]];
        assert_eq!(off(&[(1, HOUR), (2, HOUR), (3, HOUR)], joint), None);
        let both = [(1, HOUR), (2, HOUR), (3, HOUR), (4, HOUR), (5, 0)];
        assert_eq!(off(&both, joint), Some(HOUR));
    }

    #[test]
    fn of_walls_that_agree_the_nearest_to_the_time_is_what_they_say() {
        let three: &[&[u64]] = &[&[1, 2, 3]];
        let ahead = [(1, HOUR), (2, HOUR + 9_000), (3, HOUR + 4_000)];
        assert_eq!(off(&ahead, three), Some(HOUR));
        let behind = [(1, -HOUR), (2, -HOUR - 9_000), (3, -HOUR - 4_000)];
        assert_eq!(off(&behind, three), Some(-HOUR));
        assert_eq!(off(&[(1, -3_000), (2, 3_000), (3, HOUR)], three), Some(0));
        // Two majorities, of which one holds the time to be right.
        assert_eq!(off(&[(1, 0), (2, 9_000), (3, 18_000)], three), Some(0));
        let edge = [(1, HOUR), (2, HOUR + 10_000), (3, 0)];
        assert_eq!(off(&edge, three), Some(HOUR));
        let beyond = [(1, HOUR), (2, HOUR + 10_001), (3, 0)];
        assert_eq!(off(&beyond, three), None);
    }

    #[test]
    fn a_wall_that_was_heard_long_ago_or_took_long_to_arrive_is_not_counted() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut walls = Walls::default();
        walls.note(1, at(0), at(100), TIME);
        walls.note(2, at(0), at(1_001), TIME);
        walls.note(3, at(0), at(100), 0);
        assert_eq!(walls.fresh(at(1_100)), BTreeMap::from([(1, TIME + 1_000)]));
        assert_eq!(walls.fresh(at(2_101)), BTreeMap::new());
    }

    #[test]
    fn a_wild_wall_of_its_own_is_not_trusted_against_one_that_is_nearer_to_the_clock() {
        let walls = |ms| BTreeMap::from([(2, ms)]);
        let year = 365 * 24 * 3_600_000;
        assert_eq!(trusted(&BTreeMap::new(), TIME + year, TIME), TIME + year);
        assert_eq!(
            trusted(&walls(TIME + 60_000), TIME + year, TIME),
            TIME + 60_000
        );
        assert_eq!(
            trusted(&walls(TIME + year), TIME + 60_000, TIME),
            TIME + 60_000
        );
        assert_eq!(
            trusted(&walls(TIME + 8_000), TIME + 16_000, TIME),
            TIME + 16_000
        );
        // Of a new cluster, too: time that began too early catches up soon, and too late it could only wait.
        assert_eq!(trusted(&walls(TIME - year), TIME, 0), TIME - year);
    }
}
