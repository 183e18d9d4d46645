//! How a command ends that does not end well, and the exit status that says so.

use std::process::ExitCode;

/// Why a command did not do what was asked. The exit status follows.
#[derive(Debug)]
pub(crate) enum Ending {
    /// 1: the record is absent, expired or taken, or the answer is no.
    Absent(anyhow::Error),
    /// 2: bad usage, or a start that was refused.
    Refused(anyhow::Error),
    /// 3: the cluster cannot answer.
    Unanswered(anyhow::Error),
    /// 4: fatal while running.
    Fatal(anyhow::Error),
}

/// What a command comes to.
pub(crate) type Outcome = Result<(), Ending>;

impl Ending {
    /// What to tell the operator.
    #[must_use]
    pub(crate) fn error(&self) -> &anyhow::Error {
        match self {
            Self::Absent(error)
            | Self::Refused(error)
            | Self::Unanswered(error)
            | Self::Fatal(error) => error,
        }
    }

    /// The exit status.
    #[must_use]
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Absent(_) => 1,
            Self::Refused(_) => 2,
            Self::Unanswered(_) => 3,
            Self::Fatal(_) => 4,
        })
    }
}
