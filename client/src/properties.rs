//! How every property of what clients send is run, here, in `helve-mcp` and in the node; there of what peers send, too.

use proptest::{prelude::*, test_runner::TestRunner};

/// Runs ten thousand cases, or as many as the environment asks for: `make fuzz` asks for a million. A property rejects none of
/// them (no `prop_assume`), because proptest puts up with 1,024 and no more, however many there are.
pub(crate) fn check<S: Strategy>(
    strategy: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let cases = std::env::var("HELVE_CASES").ok();
    let config = ProptestConfig {
        cases: cases.map_or(10_000, |cases| {
            cases.parse().expect("HELVE_CASES is a number")
        }),
        failure_persistence: None,
        max_global_rejects: 0,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(strategy, property)
        .unwrap_or_else(|failure| panic!("{failure}"));
}
