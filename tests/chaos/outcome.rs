//! What a run came to.

use std::path::PathBuf;

use helve_tests::workload::{Harm, Harmed};
use serde::Serialize;

use super::plan::Plan;

/// Whether what was promised was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// It was.
    Held,
    /// It was not.
    Broken,
    /// The judge could not say, which counts as a failure.
    Undecided,
    /// The run shows nothing: a fault did not happen, too little was done, or the test itself failed. A failure, too.
    Void,
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Undecided => "undecided",
            Self::Void => "void",
        }
    }
}

/// One strike of a fault.
#[derive(Debug, Serialize)]
pub(crate) struct Struck {
    pub(crate) fault: String,
    /// The evidence that it happened; `None` if there is none, which makes the run void.
    pub(crate) seen: Option<String>,
    /// Calls that were answered from then on, until the next strike.
    pub(crate) answered: usize,
    /// The longest time without an answer to anyone while it lasted.
    pub(crate) unavailable_ms: u64,
}

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Ran {
    pub(crate) seed: u64,
    pub(crate) nodes: u64,
    pub(crate) faults: Vec<String>,
    pub(crate) workloads: Vec<String>,
    pub(crate) planted: Option<String>,
    /// Whether a node has executed the planted bug.
    pub(crate) plant_executed: bool,
    pub(crate) verdict: Verdict,
    /// What was broken, or why there is no verdict.
    pub(crate) reasons: Vec<String>,
    pub(crate) lost: usize,
    pub(crate) doubled: usize,
    pub(crate) stale: usize,
    /// Broken in another way.
    pub(crate) wrong: usize,
    pub(crate) strikes: Vec<Struck>,
    pub(crate) calls: usize,
    pub(crate) answered: usize,
    pub(crate) in_doubt: usize,
    /// Records that were judged, and of them those that both judges judged; 0 if what was judged did not hold.
    pub(crate) records: usize,
    pub(crate) searched: usize,
    /// The longest time without an answer to anyone while a fault was on.
    pub(crate) unavailable_ms: u64,
    /// How long a bare majority took to serve through each of its nodes once everything was mended.
    pub(crate) majority_served_ms: u64,
    pub(crate) seconds: f64,
    /// The command that repeats it.
    pub(crate) command: String,
    /// Where history and logs are, if it failed.
    pub(crate) kept: Option<PathBuf>,
}

impl Ran {
    /// Nothing is known yet: a run that ends like this is void.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            seed: plan.seed,
            nodes: plan.nodes,
            faults: plan.faults.clone(),
            workloads: plan.workloads.clone(),
            planted: plan.plant.clone(),
            plant_executed: false,
            verdict: Verdict::Void,
            reasons: Vec::new(),
            lost: 0,
            doubled: 0,
            stale: 0,
            wrong: 0,
            strikes: Vec::new(),
            calls: 0,
            answered: 0,
            in_doubt: 0,
            records: 0,
            searched: 0,
            unavailable_ms: 0,
            majority_served_ms: 0,
            seconds: 0.0,
            command: plan.command(),
            kept: None,
        }
    }

    pub(crate) fn held(&self) -> bool {
        self.verdict == Verdict::Held
    }

    /// What was broken decides; then why the run shows nothing; then whether the judge could say.
    pub(crate) fn conclude(
        &mut self,
        harmed: &[Harmed],
        void: Vec<String>,
        undecided: Option<String>,
    ) {
        for harm in harmed.iter().map(|harmed| harmed.harm) {
            match harm {
                Harm::Lost => self.lost += 1,
                Harm::Doubled => self.doubled += 1,
                Harm::Stale => self.stale += 1,
                Harm::Wrong => self.wrong += 1,
            }
        }
        self.verdict = if !harmed.is_empty() {
            Verdict::Broken
        } else if !void.is_empty() {
            Verdict::Void
        } else if undecided.is_some() {
            Verdict::Undecided
        } else {
            Verdict::Held
        };
        let harmed = harmed.iter().map(ToString::to_string);
        self.reasons = harmed.chain(void).chain(undecided).collect();
    }
}
