//! What kinds of commands there are to a proposer.

use helve_proto::command::v1::{Command, command::Operation};

/// Commands that may be executed twice, and so need no identity.
pub(super) fn repeats_harmlessly(command: &Command) -> bool {
    matches!(
        command.operation,
        Some(
            Operation::Tick(_)
                | Operation::Touch(_)
                | Operation::AllocateNodeId(_)
                | Operation::SetClusterId(_)
        )
    )
}

/// What is admitted while the disk is below its reserve.
pub(super) fn frees_space(command: &Command) -> bool {
    matches!(
        command.operation,
        Some(
            Operation::Delete(_)
                | Operation::DeleteKey(_)
                | Operation::Take(_)
                | Operation::Tick(_)
                // Without it, a read of an idle record could not be answered.
                | Operation::Touch(_)
                | Operation::OpenSession(_)
                | Operation::AllocateNodeId(_)
                | Operation::SetClusterId(_)
        )
    )
}
