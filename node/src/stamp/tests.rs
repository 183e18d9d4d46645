//! Tests of the leader's time.

use super::*;

const WALL: u64 = 1_900_000_000_000;

fn after(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

#[test]
fn a_new_office_follows_a_near_wall_and_no_wild_one() {
    let start = Instant::now();
    let seen = Some(Sighting {
        at: start,
        time_ms: WALL,
    });
    let year = 365 * 24 * 3600 * 1000;
    let anchored = |seconds, wall_ms| anchor(seen, WALL, after(start, seconds), wall_ms);
    assert_eq!(anchored(2, WALL + year), WALL + 2_000);
    assert_eq!(anchored(2, WALL - year), WALL + 2_000);
    // An idle cluster's clock stands still, its time does not.
    assert_eq!(anchored(3600, WALL - year), WALL + 3_600_000);
    assert_eq!(anchored(2, WALL + 2_500), WALL + 2_500);
    assert_eq!(anchored(2, WALL - 2_500), WALL);
}

#[test]
fn the_wall_is_trusted_only_when_nobody_can_vouch_and_never_below_the_clock() {
    let now = Instant::now();
    assert_eq!(anchor(None, WALL, now, WALL + 3_600_000), WALL + 3_600_000);
    assert_eq!(anchor(None, WALL, now, WALL - 3_600_000), WALL);
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
    // A call that began under the old term does not begin the office anew.
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
