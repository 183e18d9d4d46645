//! Concurrent histories that the model made: they hold. They do not with one answer falsified, nor, where it shows, if the cluster did
//! one thing wrong.

mod falsified;
mod planted;
mod script;

use proptest::{
    prelude::*,
    sample::Index,
    strategy::ValueTree as _,
    test_runner::{RngSeed, TestRunner},
};

use self::{
    falsified::falsify,
    planted::Plant,
    script::{CALLS, CLIENTS, Step, history, planted, steps},
};
use super::verdict;
use crate::{history::Event, judge::Verdict};

/// This many histories are drawn, unless `PROPTEST_CASES` says that more are.
const HISTORIES: u32 = 300;
/// A history that is misjudged is made smaller for so long, in milliseconds: each try may last as long as the judges search.
const SHRINK_MS: u32 = 120_000;

/// Seeds of histories of which the judge was wrong once.
const PAST: [u64; 4] = [1, 2, 3, 4];

/// Other histories every time, or those of `PROPTEST_RNG_SEED`.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let seed = match asked.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => rand::random(),
    };
    println!("PROPTEST_RNG_SEED={seed} draws the same histories again");
    ProptestConfig {
        cases: asked.cases.max(HISTORIES),
        ..seeded(seed)
    }
}

fn seeded(seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases: HISTORIES,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_time: SHRINK_MS,
        ..ProptestConfig::default()
    }
}

fn held(steps: &[Step]) -> Result<(), TestCaseError> {
    let verdict = verdict(&history(steps));
    prop_assert!(matches!(verdict, Verdict::Held(_)), "{verdict}");
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_the_model_did_holds(steps in steps()) {
        held(&steps)?;
    }

    #[test]
    fn what_the_model_did_does_not_hold_with_one_answer_falsified(steps in steps(), which: Index) {
        let mut events = history(&steps);
        let which = which.index(events.len());
        prop_assume!(falsify(&mut events[which]));
        let verdict = verdict(&events);
        prop_assert!(!matches!(verdict, Verdict::Held(_)), "#{which}: {:?}", events[which]);
    }
}

#[test]
fn what_was_misjudged_once_is_judged_rightly() {
    for seed in PAST {
        let ran = TestRunner::new(seeded(seed)).run(&steps(), |steps| held(&steps));
        assert!(ran.is_ok(), "PROPTEST_RNG_SEED={seed}: {ran:?}");
    }
}

/// Not every wrong act shows: it may have been overwritten before a read. At least this many of a
/// hundred do.
#[test]
fn what_the_cluster_did_wrong_is_found() {
    let config = config();
    for (plant, found_min) in [
        (Plant::Lost, 65),
        (Plant::Doubled, 6),
        (Plant::Torn, 45),
        (Plant::Denied, 25),
        (Plant::Stale, 80),
    ] {
        let mut runner = TestRunner::new(config.clone());
        let (mut made, mut found) = (0, 0);
        for number in 0..config.cases as usize {
            let steps = steps().new_tree(&mut runner).expect("nothing is filtered");
            let Some(events) = done_wrong(&steps.current(), number, plant) else {
                continue;
            };
            made += 1;
            found += usize::from(!matches!(verdict(&events), Verdict::Held(_)));
        }
        println!("{plant:?}: {found} of {made}");
        assert!(made >= 50, "{plant:?} was done {made} times");
        assert!(
            found * 100 >= made * found_min,
            "{plant:?}: {found} of {made}"
        );
    }
}

/// What comes of these steps if one of them is done wrong, the first from a certain one on that shows at all.
fn done_wrong(steps: &[Step], from: usize, plant: Plant) -> Option<Vec<Event>> {
    let right = history(steps);
    let calls = right.len();
    let mut wrong = (0..calls).map(|call| planted(steps, Some(((from + call) % calls, plant))));
    wrong.find(|events| *events != right)
}

#[test]
fn a_long_history_is_judged_in_seconds() {
    let step = |number: usize| {
        // Any mixture does; this one is the same each time.
        let mixed = number.wrapping_mul(2_654_435_761) >> 7;
        Step {
            client: mixed % CLIENTS,
            call: u8::try_from(mixed / 4 % usize::from(CALLS)).expect("it is below CALLS"),
            record: u8::try_from(mixed / 64 % 3).expect("it is below 3"),
            luck: u8::try_from(mixed / 256 % 250).expect("it is below 250"),
            ms: (mixed / 1_024 % 12) as u64,
        }
    };
    let steps: Vec<_> = (0..30_000).map(step).collect();
    let events = history(&steps);
    assert!(events.len() > 8_000, "{}", events.len());
    let verdict = verdict(&events);
    assert!(matches!(verdict, Verdict::Held(_)), "{verdict}");
}
