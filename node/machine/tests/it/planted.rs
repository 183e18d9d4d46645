//! Planted bugs must be noticed: a story that holds without a bug must fail with it.

use helve_machine::{
    limits::{FEATURE_LEVEL, VALUE_BYTES_MAX},
    planted::{Plant, choose, clear, executions, learn_next_level},
};

use crate::story::{Story, Sweep};

#[test]
fn each_bug_of_the_machine_is_noticed_by_its_story() {
    let fails = |story: &str| {
        std::panic::catch_unwind(|| {
            let mut teller = Story::new(Sweep::Late);
            story.lines().for_each(|line| teller.line(line, "planted"));
        })
        .is_err()
    };
    let large = format!(
        "put cart a value={} -> too_large",
        "v".repeat(VALUE_BYTES_MAX + 1)
    );
    let stories = [
        (
            Plant::ReplayOff,
            "session s -> open\nmint cart session=s seq=1 -> minted\nagain -> minted\ncount cart -> 1",
        ),
        (
            Plant::ReplayOff,
            "put cart a value=1 request=r -> created\nput cart a value=2 -> replaced\nput cart a value=1 request=r -> created\nget cart a -> live 2",
        ),
        (
            Plant::IgnoreRevision,
            "put cart a value=1 -> created\nput cart a value=2 if=7 -> conflict 1 at 0",
        ),
        (
            Plant::ServeExpired,
            "put cart a ttl=1s -> created\nadvance 1s\nget cart a -> expired",
        ),
        (
            Plant::EarlyExpiry,
            "put cart a ttl=10s value=v -> created\nadvance 9s\nget cart a -> live v",
        ),
        (
            Plant::OwnerNotInKey,
            "put cart a owner=ann value=v -> created\nget cart a owner=bob -> unknown",
        ),
        (
            Plant::UsageOff,
            "put cart a value=v -> created\ncount cart -> 1",
        ),
        (
            Plant::LeaseTwice,
            "raise 6 -> level 6\nbegin pay a digest=d lease=9s -> fresh fence=2 until=9s\nbegin pay a digest=d lease=9s -> in_flight until=9s",
        ),
        (Plant::NoLimit, large.as_str()),
    ];
    for (plant, story) in stories {
        assert!(!fails(story), "without a bug: {story:.200}");
        choose(plant);
        assert!(fails(story), "{plant:?} went unseen: {story:.200}");
        let executed = executions().is_some_and(|(executed, times)| executed == plant && times > 0);
        assert!(executed, "{plant:?} failed a story without being executed");
        clear();
        assert!(executions().is_none());
    }
}

#[test]
fn what_the_next_level_adds_takes_effect_only_once_the_level_is_raised() {
    learn_next_level();
    let next = FEATURE_LEVEL + 1;
    let story = format!(
        "probe -> feature_level\nraise {next} -> level {next}\nprobe -> probed 1\nraise 1 -> level {next}\nprobe -> probed 2"
    );
    let mut teller = Story::new(Sweep::Late);
    story.lines().for_each(|line| teller.line(line, "upgrade"));
    teller.audit("upgrade");
}
