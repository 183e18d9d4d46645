//! A backup that a place is receiving.

use helve_proto::v1::BackupChunk;

#[cfg(feature = "object-store")]
use crate::backup::bucket::{mark::first_to_mend, upload::Upload};
use crate::backup::{
    BackupError,
    receiver::{Received, Receiver},
};

/// A backup that is being received.
pub struct Receiving<'a>(pub(super) To<'a>);

pub(super) enum To<'a> {
    Directory(Box<Receiver<'a>>),
    #[cfg(feature = "object-store")]
    Bucket(Box<Upload<'a>>),
}

impl Receiving<'_> {
    /// Bytes that have arrived.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        match &self.0 {
            To::Directory(receiver) => receiver.sent_bytes(),
            #[cfg(feature = "object-store")]
            To::Bucket(upload) => upload.sent_bytes(),
        }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// If it is out of order, a file is not what the manifest says, or the place fails.
    pub async fn write(&mut self, chunk: &BackupChunk) -> Result<(), BackupError> {
        match &mut self.0 {
            To::Directory(receiver) => receiver.write(chunk),
            #[cfg(feature = "object-store")]
            To::Bucket(upload) => upload.write(chunk).await,
        }
    }

    /// Completes the files in a bucket, and checks that all is there, that of earlier backups too:
    /// what may take long before there is a backup. If it is cut off, [abandon](Self::abandon) it.
    ///
    /// # Errors
    /// If a file is not what the manifest says, or a store fails.
    pub async fn settle(&mut self) -> Result<(), BackupError> {
        match &mut self.0 {
            // Its files are complete on disk only with the backup.
            To::Directory(_) => Ok(()),
            #[cfg(feature = "object-store")]
            To::Bucket(upload) => upload.settle().await,
        }
    }

    /// [Settles](Self::settle) it unless it is, and makes it a backup, durably.
    ///
    /// # Errors
    /// If a file is not what the manifest says, or the place fails. Then there is no backup; files
    /// that are whole stay for the next one.
    pub async fn finish(self) -> Result<Received, BackupError> {
        match self.0 {
            To::Directory(receiver) => receiver.finish(),
            #[cfg(feature = "object-store")]
            To::Bucket(mut upload) => match upload.finish().await {
                Ok(received) => Ok(received),
                Err(error) => Err(first_to_mend(error, upload.abandon().await)),
            },
        }
    }

    /// Gives up a backup that was cut short. Files that arrived whole stay for the next one.
    ///
    /// # Errors
    /// If a store fails. Then parts of a file are left there.
    pub async fn abandon(self) -> Result<(), BackupError> {
        match self.0 {
            To::Directory(_) => Ok(()),
            #[cfg(feature = "object-store")]
            To::Bucket(mut upload) => upload.abandon().await,
        }
    }
}
