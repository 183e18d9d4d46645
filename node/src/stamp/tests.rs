//! Tests of the leader's time.

use super::*;

const WALL: u64 = 1_900_000_000_000;

fn after(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

#[test]
fn a_wall_that_is_far_off_is_told_and_one_that_is_near_is_not() {
    let stamper = Stamper::default();
    let now = Instant::now();
    let day = 24 * 3600 * 1000;
    assert_eq!(stamper.wall_off_at(now, WALL), 0, "it knows of no time");
    stamper.stamp_at(1, WALL, now, WALL + 1);
    let off = |seconds, wall_ms| stamper.wall_off_at(after(now, seconds), wall_ms);
    assert_eq!(off(5, WALL + 15_001), 0);
    assert_eq!(off(5, WALL + 15_002), 10_001);
    assert_eq!(off(5, WALL - day), day + 5_001);
    assert_eq!(stamper.jump_ms(), 0);
    // All nodes were down, and this one had to trust its wall.
    let trusting = Stamper::default();
    trusting.stamp_at(2, WALL, now, WALL + day + 1);
    assert_eq!(trusting.jump_ms(), day + 1);
    assert_eq!(trusting.wall_off_at(now, WALL + day + 1), 0);
    // Time goes on from there under the next term.
    trusting.stamp_at(3, WALL, now, WALL + day + 1);
    assert_eq!(trusting.jump_ms(), 0);
}

#[test]
fn a_node_that_was_just_started_begins_its_office_by_what_its_voters_vouch_for() {
    let (voter, started) = (Stamper::default(), Stamper::default());
    assert_eq!(voter.estimate(), None);
    voter.note(WALL);
    started.vouched(0);
    assert_eq!(started.estimate(), None);
    started.vouched(voter.estimate().unwrap());
    let year = 365 * 24 * 3600 * 1000;
    let vouched = started.lock().seen.unwrap();
    let stamp = started.stamp_at(1, WALL, vouched.at, WALL + year);
    assert_eq!(stamp, vouched.time_ms);
}

#[test]
fn stamps_follow_monotonic_time_not_a_stepping_wall() {
    let stamper = Stamper::default();
    let start = Instant::now();
    assert_eq!(stamper.stamp_at(1, WALL, start, WALL), WALL);
    assert_eq!(
        stamper.stamp_at(1, WALL, after(start, 1), WALL + 9_000_000),
        WALL + 1_000
    );
    assert_eq!(stamper.stamp_at(1, WALL, after(start, 2), 0), WALL + 2_000);
}

#[test]
fn a_wild_wall_adds_nothing_with_every_election() {
    let stamper = Stamper::default();
    let start = Instant::now();
    stamper.stamp_at(1, WALL, start, WALL);
    let year = 365 * 24 * 3600 * 1000;
    for term in 2..=9 {
        let again = stamper.stamp_at(term, WALL, after(start, term), WALL + year);
        assert_eq!(again, WALL + term * 1_000);
    }
    // A call that began under the old term does not begin the office again.
    assert_eq!(
        stamper.stamp_at(1, WALL, after(start, 10), WALL),
        WALL + 10_000
    );
}

#[test]
fn a_near_wall_is_approached_slowly() {
    let stamper = Stamper::default();
    let start = Instant::now();
    stamper.stamp_at(1, WALL, start, WALL);
    let later = stamper.stamp_at(1, WALL, after(start, 20), WALL + 20_000 + 5_000);
    assert_eq!(later, WALL + 20_000 + 10);
}

/// Three voters, of which this one, node 1, leads. It looks four times a second, and hears of the others as often.
struct Cluster {
    stamper: Stamper,
    start: Instant,
    passed_ms: u64,
    last_ms: u64,
    term: u64,
}

impl Cluster {
    fn new() -> Self {
        let (stamper, start) = (Stamper::default(), Instant::now());
        let last_ms = stamper.stamp_at(1, WALL, start, WALL);
        Self {
            stamper,
            start,
            passed_ms: 0,
            last_ms,
            term: 1,
        }
    }

    /// Lets time pass while the walls are so far from the true time; how far the cluster's is from it then.
    fn pass(&mut self, passed_ms: u64, walls: [Option<i64>; 3]) -> i64 {
        let end = self.passed_ms + passed_ms;
        while self.passed_ms < end {
            self.passed_ms += 250;
            let now = self.start + Duration::from_millis(self.passed_ms);
            let true_ms = WALL + self.passed_ms;
            let wall = |off_ms| true_ms.saturating_add_signed(off_ms);
            for (id, off_ms) in [2, 3].into_iter().zip(&walls[1..]) {
                if let Some(off_ms) = *off_ms {
                    self.stamper.lock().walls.note(id, now, now, wall(off_ms));
                }
            }
            let own = (1, wall(walls[0].expect("a leader has a wall")));
            let voters = [BTreeSet::from([1, 2, 3])];
            self.stamper
                .compare_at((self.term, self.last_ms), own, &voters, now);
            let stamp = self.stamper.stamp_at(self.term, self.last_ms, now, own.1);
            assert!(stamp >= self.last_ms, "time fell");
            self.last_ms = stamp;
        }
        signed(self.last_ms, WALL + self.passed_ms)
    }
}

const HOUR: i64 = 3_600_000;

#[test]
fn time_follows_two_right_walls_and_not_the_wild_one_of_the_leader() {
    let mut cluster = Cluster::new();
    let off_ms = cluster.pass(20_000, [Some(99 * HOUR), Some(HOUR), Some(HOUR)]);
    assert_eq!(off_ms, HOUR);
}

#[test]
fn one_wild_wall_moves_nothing_on_any_node() {
    for wild in 0..3 {
        let mut walls = [Some(0); 3];
        walls[wild] = Some(HOUR);
        assert_eq!(Cluster::new().pass(60_000, walls), 0, "wall {wild}");
        walls[wild] = Some(-HOUR);
        assert_eq!(Cluster::new().pass(60_000, walls), 0, "wall {wild}");
    }
}

#[test]
fn a_leader_that_hears_of_no_majority_moves_nothing() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.pass(60_000, [Some(HOUR), None, None]), 0);
    assert_eq!(cluster.stamper.walls_ahead_ms(), None);
}

#[test]
fn time_goes_on_returning_under_the_next_leader_and_does_not_fall() {
    let mut cluster = Cluster::new();
    let walls = [Some(-60_000), Some(-60_000), Some(-60_000)];
    let first = cluster.pass(30_000, walls);
    assert!((-13_000..-12_000).contains(&first), "{first}");
    cluster.term += 1;
    let second = cluster.pass(30_000, walls);
    assert!((-26_000..-24_000).contains(&second), "{second}");
    let met = cluster.pass(90_000, walls);
    assert!((-60_000..=-59_900).contains(&met), "{met}");
}

#[test]
fn a_whole_restart_of_right_walls_behind_the_clock_slows_time_until_they_meet() {
    // What the log says is a minute ahead of all walls, and no node remembers more.
    let mut cluster = Cluster {
        stamper: Stamper::default(),
        start: Instant::now(),
        passed_ms: 0,
        last_ms: WALL + 60_000,
        term: 7,
    };
    let walls = [Some(0); 3];
    let slowed = cluster.pass(60_000, walls);
    assert!((30_000..35_000).contains(&slowed), "{slowed}");
    let met = cluster.pass(90_000, walls);
    assert!((0..=100).contains(&met), "{met}");
}

#[test]
fn a_minted_id_is_26_characters_of_base32() {
    let id = mint_id().unwrap();
    assert_eq!(id.len(), 26);
    assert!(
        id.bytes()
            .all(|b| b.is_ascii_uppercase() || (b'2'..=b'7').contains(&b))
    );
    assert!(b"AEIMQUY4".contains(&id.as_bytes()[25]));
}
