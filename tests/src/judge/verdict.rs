//! What the judges say.

use std::fmt;

/// What came of judging a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing in it contradicts what Helve promises.
    Held(Stats),
    /// Something does.
    Broken(Vec<Finding>),
    /// It could not be told within the bounds of the search. A run with this verdict has failed.
    Undecided(String),
}

/// What a history held, so that a runner can ask for a least amount of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that were made.
    pub calls: usize,
    /// Mutations that were answered.
    pub mutations: usize,
    /// Reads that were answered, lists included.
    pub reads: usize,
    /// Lists that were answered.
    pub lists: usize,
    /// Calls that were refused, conflicts included, and certainly had no effect.
    pub refused: usize,
    /// Mutations whose outcome no client was told.
    pub unknown: usize,
    /// Of those, the ones that are seen to have taken effect.
    pub settled: usize,
    /// Records that were judged.
    pub records: usize,
    /// Records that the second judge searched through as well.
    pub searched: usize,
}

/// Which promise a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// What was acknowledged before is before it in the log.
    RealTime,
    /// The replicated clock never falls.
    Clock,
    /// One call takes effect once, and has a log index of its own; its retries are told the same.
    Once,
    /// What the client says had no effect had none.
    Honest,
    /// What is read was written.
    Phantom,
    /// What was acknowledged is there.
    Lost,
    /// What is read is what was written last.
    Stale,
    /// Nothing is served after its deadline, and nothing expires before.
    Lifetime,
    /// A taken value goes out once.
    Taken,
    /// A handle answers to its owner alone.
    Owner,
    /// A list is one view, whole.
    List,
    /// A count is of one view.
    Count,
    /// A transaction is all or nothing.
    Torn,
    /// A mutation says what the model says.
    Answer,
    /// Each record by itself is linearizable, by the search of the second judge.
    Linearizable,
}

/// A contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The promise that does not hold.
    pub rule: Rule,
    /// The calls that contradict each other, or the model, by their numbers in the history.
    pub events: Vec<usize>,
    /// What they were, when, what they were told, and what the model says.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(stats) => write!(
                f,
                "held: {} calls on {} records, {} mutations and {} reads answered, {} outcomes unknown, {} of them seen",
                stats.calls,
                stats.records,
                stats.mutations,
                stats.reads,
                stats.unknown,
                stats.settled
            ),
            Self::Broken(findings) => {
                writeln!(f, "broken, {} findings:", findings.len())?;
                findings
                    .iter()
                    .try_for_each(|finding| writeln!(f, "- {finding}"))
            }
            Self::Undecided(why) => write!(f, "undecided: {why}"),
        }
    }
}
