//! Checkpoints are tried again: rows go on being written meanwhile, and the engine copies the log that they are written to. A file system
//! that shows a file's new length before its new bytes makes it believe that some are missing.

use rocksdb::{Error, ErrorKind};

/// What is missing every time is missing.
const TRIES: u32 = 3;

/// Takes a checkpoint, again if something seems to be missing. A try that failed leaves nothing behind.
pub(super) fn checkpoint(mut take: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut tried = 1;
    loop {
        match take() {
            Err(error) if error.kind() == ErrorKind::Corruption && tried < TRIES => {
                tracing::warn!(%error, tried, "a checkpoint is taken again");
                tried += 1;
            }
            taken => return taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rocksdb::{DB, Options};

    use super::*;

    fn error(current: &str) -> Error {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("CURRENT"), current).unwrap();
        DB::open(&Options::default(), directory.path()).unwrap_err()
    }

    fn corruption() -> Error {
        let error = error("no line end");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        error
    }

    #[test]
    fn what_seemed_to_be_missing_once_is_looked_for_again() {
        let mut failures = vec![corruption(), corruption()];
        let taken = checkpoint(|| failures.pop().map_or(Ok(()), Err));
        assert!(taken.is_ok() && failures.is_empty());
    }

    #[test]
    fn what_is_missing_every_time_is_said() {
        let mut tried = 0;
        let taken = checkpoint(|| {
            tried += 1;
            Err(corruption())
        });
        assert_eq!(taken.unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(tried, TRIES);
    }

    #[test]
    fn any_other_failure_is_said_at_once() {
        let other = error("MANIFEST-000001\n");
        assert_ne!(other.kind(), ErrorKind::Corruption);
        let mut failures = vec![other];
        let taken = checkpoint(|| failures.pop().map_or(Ok(()), Err));
        assert!(taken.is_err());
    }
}
