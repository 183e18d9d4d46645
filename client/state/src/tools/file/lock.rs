//! The lock that all tools of a directory share, in this process and in others. It goes with the process that holds it.

use std::{fs::File, sync::Arc};

use helve_client::{Error, extend::Backoff};
use rustix::fs::{FlockOperation, flock};

use super::{disk::Disk, failures::before};
use crate::{private_files, tools::keeper::Access};

/// Waits for the lock, which readers share, and writers have alone; the caller's deadline ends the wait. A batch that a crash left half done is carried out first.
pub(super) async fn acquire(disk: &Arc<Disk>, access: Access) -> Result<File, Error> {
    loop {
        let lock = wait(disk, access).await?;
        if !disk.has_batch()? {
            return Ok(lock);
        }
        drop(lock);
        let alone = wait(disk, Access::Write).await?;
        let mender = Arc::clone(disk);
        let mended = tokio::task::spawn_blocking(move || {
            let mended = mender.finish_batch();
            drop(alone);
            mended
        });
        mended
            .await
            .map_err(|error| Error::internal("a file's writer panicked").with_source(error))??;
    }
}

async fn wait(disk: &Disk, access: Access) -> Result<File, Error> {
    let path = disk.lock_path();
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let lock = private_files::open(&mut options, &path);
    let lock = lock.map_err(|error| before(&path, error))?;
    let operation = match access {
        Access::Read => FlockOperation::NonBlockingLockShared,
        Access::Write => FlockOperation::NonBlockingLockExclusive,
    };
    let mut backoff = Backoff::contention();
    loop {
        match flock(&lock, operation) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                tokio::time::sleep(backoff.next_pause()).await;
            }
            Err(error) => return Err(before(&path, error.into())),
        }
    }
}
