//! How commands end that fail at a backup.

use std::io;

use helve_command::ending::Ending;
use helve_node::backup::BackupError;

/// How a command ends that cannot make a backup. A directory that is not there, or is a file, is the command's fault; one that cannot be
/// written is not, by the help.
pub(super) fn ending(error: BackupError) -> Ending {
    let is_of_command = match &error {
        BackupError::Stream(_)
        | BackupError::LogStream(_)
        | BackupError::KeptDamaged(_)
        | BackupError::TooLong(_)
        | BackupError::Entropy(_) => false,
        BackupError::Store(error) => error.problem.is_of_command(),
        BackupError::Io { source, .. } => is_misnamed(source),
        _ => true,
    };
    if is_of_command {
        Ending::Refused(error.into())
    } else {
        Ending::Fatal(error.into())
    }
}

/// How a command ends that cannot read a backup: another directory, or another right to it, is for the command to give.
pub(crate) fn unread(error: BackupError) -> Ending {
    let is_of_machine = match &error {
        BackupError::Io { source, .. } => {
            !is_misnamed(source) && source.kind() != io::ErrorKind::PermissionDenied
        }
        BackupError::Store(error) => !error.problem.is_of_command(),
        BackupError::Entropy(_) => true,
        _ => false,
    };
    if is_of_machine {
        Ending::Fatal(error.into())
    } else {
        Ending::Refused(error.into())
    }
}

fn is_misnamed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use helve_node::backup::{StoreError, StoreProblem};

    use super::*;

    #[test]
    fn directory_is_at_fault_as_the_help_says() {
        use io::ErrorKind as Kind;
        let status = |ending: fn(BackupError) -> Ending, kind: Kind| {
            let error = BackupError::Io {
                action: "open",
                path: "backups".into(),
                source: io::Error::from(kind),
            };
            ending(error).status()
        };
        for (kind, writing, reading) in [
            (Kind::NotFound, 2, 2),
            (Kind::NotADirectory, 2, 2),
            (Kind::PermissionDenied, 4, 2),
            (Kind::ReadOnlyFilesystem, 4, 4),
            (Kind::StorageFull, 4, 4),
            (Kind::Other, 4, 4),
        ] {
            assert_eq!(status(ending, kind), writing, "writing: {kind:?}");
            assert_eq!(status(unread, kind), reading, "reading: {kind:?}");
        }
        assert_eq!(unread(BackupError::Nothing("backups".into())).status(), 2);
    }

    #[test]
    fn store_is_at_fault_unless_another_command_would_help() {
        for (problem, status) in [
            (StoreProblem::NotBuilt, 2),
            (StoreProblem::NoBucket, 2),
            (StoreProblem::Refused("AccessDenied".to_owned()), 2),
            (StoreProblem::PlainHttp("store.example".to_owned()), 2),
            (StoreProblem::ClockSkew, 4),
            (StoreProblem::Slow(25), 4),
            (StoreProblem::Other("HTTP 503".to_owned()), 4),
        ] {
            let failed = || {
                BackupError::Store(StoreError {
                    place: "s3://backups/helve".to_owned(),
                    action: "read",
                    problem: problem.clone(),
                })
            };
            assert_eq!(ending(failed()).status(), status, "writing: {problem}");
            assert_eq!(unread(failed()).status(), status, "reading: {problem}");
        }
    }
}
