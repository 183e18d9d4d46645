//! Why a node does not start.

/// A start that was refused: the flag at fault, what is wrong with it, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {problem}\n  remedy: {remedy}")]
pub struct Refusal {
    /// The flag, such as `--peers`.
    pub flag: &'static str,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl Refusal {
    /// A refusal because of `flag`.
    pub fn new(flag: &'static str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            flag,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}
