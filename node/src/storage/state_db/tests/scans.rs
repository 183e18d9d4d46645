//! What the writer's scans find, whatever they remember of earlier ones.

use proptest::{collection::vec, prelude::*};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    Delete(u8),
    Scan { from: u8, to: u8, rows_max: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0_u8..24;
    prop_oneof![
        key().prop_map(Step::Put),
        key().prop_map(Step::Delete),
        (key(), key(), 0_usize..4).prop_map(|(from, to, rows_max)| Step::Scan {
            from,
            to,
            rows_max
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scan_of_the_writer_finds_what_any_other_finds(steps in vec(step(), 1..200)) {
        let directory = tempfile::tempdir().unwrap();
        let state = open(&directory);
        for (step, index) in steps.into_iter().zip(1..) {
            let write = |key: u8, value| {
                let row = (Bytes::from(vec![key]), value);
                state.write([row], &log_id(index), None).unwrap();
            };
            match step {
                Step::Put(key) => write(key, Some("apple".into())),
                Step::Delete(key) => write(key, None),
                Step::Scan { from, to, rows_max } => {
                    let (from, to) = ([from], [to]);
                    let found = state.read_to_write(|view| view.range(&from, &to, rows_max));
                    let wanted = state.read(|view| view.range(&from, &to, rows_max));
                    prop_assert_eq!(found.unwrap(), wanted.unwrap());
                }
            }
        }
    }
}
