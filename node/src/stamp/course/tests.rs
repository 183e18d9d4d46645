//! Tests of how time returns to the walls: a leader that looks four times a second, and stamps as often.

use super::*;

const START: u64 = 1_900_000_000_000;
const LOOK_MS: u64 = 250;
const HOUR_MS: i64 = 3_600_000;
const CONFIRM_MS: u64 = 5_000;

/// A leader's time, and how it came about.
struct Leader {
    course: Course,
    began: Instant,
    passed_ms: u64,
    /// How far its time has been moved beside passing.
    moved_ms: i64,
}

impl Leader {
    fn new() -> Self {
        let began = Instant::now();
        Self {
            course: Course::new(began),
            began,
            passed_ms: 0,
            moved_ms: 0,
        }
    }

    fn now(&self) -> Instant {
        self.began + Duration::from_millis(self.passed_ms)
    }

    fn true_ms(&self) -> u64 {
        START + self.passed_ms
    }

    fn time_ms(&self) -> u64 {
        self.true_ms().saturating_add_signed(self.moved_ms)
    }

    /// Lets so much time pass, while a majority of walls is so far from the true time; `None`: none agrees. Time never falls.
    fn pass(&mut self, passed_ms: u64, walls: Option<i64>) -> &mut Self {
        let end = self.passed_ms + passed_ms;
        while self.passed_ms < end {
            let before = self.time_ms();
            self.passed_ms += LOOK_MS;
            let (now, true_ms) = (self.now(), self.true_ms());
            self.moved_ms += self.course.step(now, self.time_ms(), true_ms);
            let agreed = walls.map(|off_ms| true_ms.saturating_add_signed(off_ms));
            self.course.look(now, agreed, self.time_ms());
            assert!(self.time_ms() >= before, "time fell");
        }
        self
    }
}

fn assert_met(moved_ms: i64, off_ms: i64) {
    assert!(
        moved_ms.abs_diff(off_ms) <= MET_MS,
        "{moved_ms} is not {off_ms}"
    );
}

#[test]
fn walls_ahead_are_followed_by_an_hour_a_second_once_they_are_confirmed() {
    let mut leader = Leader::new();
    leader.pass(CONFIRM_MS, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, 0, "not confirmed yet");
    leader.pass(LOOK_MS, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, 0, "confirmed, and not moved yet");
    leader.pass(5_000, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, 5 * HOUR_MS);
    leader.pass(6_000, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, 10 * HOUR_MS, "met, and not passed");
    leader.pass(60_000, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, 10 * HOUR_MS);
}

#[test]
fn walls_behind_are_met_at_half_speed() {
    let mut leader = Leader::new();
    leader.pass(CONFIRM_MS + LOOK_MS, Some(-60_000));
    assert_eq!(leader.moved_ms, 0);
    leader.pass(60_000, Some(-60_000));
    assert_eq!(leader.moved_ms, -30_000);
    for _ in 0..2 {
        leader.pass(60_000 + LOOK_MS, Some(-60_000));
        assert_met(leader.moved_ms, -60_000);
    }
}

#[test]
fn time_returns_all_the_way_and_not_only_to_where_walls_count_as_near() {
    for off_ms in [10_001, -10_001] {
        let mut leader = Leader::new();
        leader.pass(60_000, Some(off_ms));
        assert_met(leader.moved_ms, off_ms);
    }
}

#[test]
fn near_walls_are_approached_slowly() {
    for off_ms in [10_000, -10_000] {
        let mut leader = Leader::new();
        leader.pass(60_000, Some(off_ms));
        assert_eq!(leader.moved_ms, off_ms.signum() * 30);
    }
}

#[test]
fn walls_that_jump_back_before_they_are_confirmed_change_nothing() {
    let mut leader = Leader::new();
    for _ in 0..20 {
        leader
            .pass(CONFIRM_MS, Some(HOUR_MS))
            .pass(LOOK_MS, Some(0));
    }
    assert_eq!(leader.moved_ms, 0);
}

#[test]
fn walls_that_jump_between_two_times_are_never_confirmed() {
    let mut leader = Leader::new();
    for _ in 0..20 {
        leader.pass(CONFIRM_MS, Some(HOUR_MS));
        leader.pass(CONFIRM_MS, Some(2 * HOUR_MS));
    }
    assert_eq!(leader.moved_ms, 0);
}

#[test]
fn time_stops_where_it_is_when_no_majority_agrees_any_more() {
    let mut leader = Leader::new();
    leader.pass(CONFIRM_MS + LOOK_MS + 2_000, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, 2 * HOUR_MS);
    // One more step, up to the look that finds none.
    leader.pass(60_000, None);
    let stopped = leader.moved_ms;
    assert!(stopped <= 2 * HOUR_MS + HOUR_MS / 4, "{stopped}");
    leader.pass(CONFIRM_MS, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, stopped, "it has to be confirmed again");
    leader.pass(30_000, Some(10 * HOUR_MS));
    assert_eq!(leader.moved_ms, 10 * HOUR_MS);
}

#[test]
fn walls_that_jump_while_time_returns_are_confirmed_again() {
    let mut leader = Leader::new();
    leader.pass(CONFIRM_MS + LOOK_MS + 2_000, Some(10 * HOUR_MS));
    leader.pass(CONFIRM_MS, Some(10_000 * HOUR_MS));
    assert!(leader.moved_ms <= 2 * HOUR_MS + HOUR_MS / 4);
}

#[test]
fn walls_that_were_ahead_and_are_right_again_are_met_from_ahead() {
    let mut leader = Leader::new();
    leader.pass(10_000, Some(300_000));
    assert_eq!(leader.moved_ms, 300_000);
    leader.pass(CONFIRM_MS + LOOK_MS, Some(0));
    assert_eq!(leader.moved_ms, 300_000);
    leader.pass(300_000, Some(0));
    assert_eq!(leader.moved_ms, 150_000);
    leader.pass(300_000 + LOOK_MS, Some(0));
    assert_met(leader.moved_ms, 0);
}

#[test]
fn walls_that_were_not_heard_of_lately_are_not_followed() {
    let mut leader = Leader::new();
    leader.pass(CONFIRM_MS + LOOK_MS, Some(10 * HOUR_MS));
    // No caller looks any more.
    leader.passed_ms += 60_000;
    let (now, true_ms) = (leader.now(), leader.true_ms());
    assert_eq!(leader.course.step(now, leader.time_ms(), true_ms), 0);
    // What passed meanwhile is not made up for.
    leader.pass(1_000, Some(10 * HOUR_MS));
    assert!(leader.moved_ms <= HOUR_MS);
}

#[test]
fn stamps_that_come_often_move_time_as_fast_as_rare_ones() {
    let began = Instant::now();
    let mut course = Course::new(began);
    let wall = |ms: u64| Some(START + ms - 600_000);
    for ms in (0..=CONFIRM_MS).step_by(1_000) {
        course.look(began + Duration::from_millis(ms), wall(ms), START + ms);
    }
    let mut moved = 0;
    for ms in (CONFIRM_MS + 3..CONFIRM_MS + 1_500).step_by(3) {
        let now = began + Duration::from_millis(ms);
        moved += course.step(now, START + ms, START + ms);
    }
    assert_eq!(moved, -748);
}
