//! What is wrong, in words: for the demo's report and the flows'.

use helve_mcp::flow::Findings;

/// How many findings of a kind are printed; the count is always whole.
const FINDINGS_SHOWN: usize = 10;

/// The findings in words, cut short, and why flows gave up.
pub(super) fn shown(findings: &Findings, gave_up: &[String]) -> Vec<String> {
    fn some<'a>(
        kind: &'static str,
        all: impl IntoIterator<Item = &'a String>,
    ) -> impl Iterator<Item = String> {
        all.into_iter()
            .take(FINDINGS_SHOWN)
            .map(move |one| format!("{kind}: {one}"))
    }
    let lost = some("lost", &findings.lost);
    lost.chain(some("doubled", &findings.doubled))
        .chain(some("gave up", gave_up))
        .collect()
}
