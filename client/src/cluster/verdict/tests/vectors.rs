//! The vectors that clients in other languages keep, too.

use super::{super::*, answers::verdict_of};
use crate::vectors::part;

/// Effect, kind, health and pause, as the vectors name them.
fn told(verdict: Verdict) -> (&'static str, ErrorKind, String, Option<u64>) {
    let sound = "sound".to_owned();
    let health = |node: Health| format!("{node:?}").to_lowercase();
    match verdict {
        Verdict::Refused(error) => ("refused", error.kind(), sound, None),
        Verdict::Barred(error) => ("barred", error.kind(), sound, None),
        Verdict::Oversized(error) => ("oversized", error.kind(), sound, None),
        Verdict::NotDone { error, pause, node } => {
            let pause_ms = pause.map(|pause| u64::try_from(pause.as_millis()).unwrap());
            ("not_done", error.kind(), health(node), pause_ms)
        }
        Verdict::Unknown { error, node } => ("unknown", error.kind(), health(node), None),
    }
}

#[test]
fn answers_are_judged_as_the_vectors_for_all_clients_say() {
    for case in part("verdicts.json", "cases") {
        let verdict = verdict_of(&case["answer"]);
        let verdict = match case["has_values"].as_bool() {
            Some(true) => verdict.of_large_reply(),
            _ => verdict.of_small_reply(),
        };
        let (effect, kind, health, pause_ms) = told(verdict);
        let text = |name: &str| case[name].as_str().unwrap();
        assert_eq!(
            (effect, &*health),
            (text("effect"), text("health")),
            "{case}"
        );
        let number = |name: &str| case[name].as_u64();
        match kind {
            ErrorKind::Conflict {
                revision,
                operation,
            } => {
                assert_eq!(text("kind"), "Conflict", "{case}");
                assert_eq!(revision, number("revision").unwrap_or(0), "{case}");
                assert_eq!(
                    u64::from(operation),
                    number("operation").unwrap_or(0),
                    "{case}"
                );
            }
            kind => assert_eq!(format!("{kind:?}"), text("kind"), "{case}"),
        }
        assert_eq!(pause_ms, number("pause_ms"), "{case}");
    }
}
