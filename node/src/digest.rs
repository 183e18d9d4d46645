//! One number for all that a node holds: whether replicas agree, without comparing them row by row.
//!
//! Every row is a function of the log, so nodes that have applied up to the same entry hold the
//! same rows. Nothing that is a node's own is among them.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use crate::{
    limits::DIGESTS_MAX,
    storage::{error::StorageError, state_db::StateDb, state_view::StateView},
};

/// Whether to go on is asked after this many rows.
const ROWS_BETWEEN_LOOKS: u64 = 1_024;

/// All rows of one view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDigest {
    /// The last entry that the view shows; 0 for none.
    pub applied_index: u64,
    /// How many rows there are.
    pub rows: u64,
    /// SHA-256 over each row's key and value, in the order of the keys.
    pub digest: [u8; 32],
}

/// Why there is no digest. Asking again does no harm.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    /// Another digest is under way, and took all the time there was.
    #[error("another digest is under way: ask again later")]
    Busy,
    /// The rows could not all be read within the deadline.
    #[error("the rows could not all be read within the deadline: ask with a longer one")]
    TooSlow,
    /// The rows cannot be read.
    #[error("this node's rows cannot be read: {0}")]
    Storage(#[from] StorageError),
    /// The node is stopping.
    #[error("this node is stopping: use another one")]
    Stopping,
}

/// Makes digests, a few at a time, on threads that may wait for the disk.
#[derive(Debug)]
pub struct Digester {
    state: Arc<StateDb>,
    slots: Arc<Semaphore>,
}

impl Digester {
    /// Of this state.
    #[must_use]
    pub fn new(state: Arc<StateDb>) -> Self {
        Self {
            state,
            slots: Arc::new(Semaphore::new(DIGESTS_MAX)),
        }
    }

    /// Hashes all rows as they are now. It gives up at the deadline.
    ///
    /// # Errors
    /// See [`DigestError`].
    pub async fn digest(&self, deadline: Instant) -> Result<StateDigest, DigestError> {
        let slot = timeout_at(deadline, Arc::clone(&self.slots).acquire_owned()).await;
        let slot = slot
            .map_err(|_| DigestError::Busy)?
            .expect("the semaphore is never closed");
        let state = Arc::clone(&self.state);
        let hashed = tokio::task::spawn_blocking(move || {
            let digest = state.read(|view| hash(view, |_| Instant::now() < deadline));
            drop(slot);
            digest?.ok_or(DigestError::TooSlow)
        });
        hashed.await.map_err(|_| DigestError::Stopping)?
    }
}

/// Hashes all rows of a view; `None` if `goes_on` did not agree, which is told now and then how many were read. Blocks.
///
/// # Errors
/// If the rows cannot be read.
pub(crate) fn hash(
    view: &StateView<'_>,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Result<Option<StateDigest>, StorageError> {
    let applied_index = view.applied()?.map_or(0, |id| id.index);
    let mut hasher = Sha256::new();
    let mut rows = 0_u64;
    let mut is_over = false;
    view.each_row(|key, value| {
        for part in [key, value] {
            let length = u32::try_from(part.len()).expect("a message bounds every row");
            hasher.update(length.to_be_bytes());
            hasher.update(part);
        }
        rows += 1;
        is_over = rows.is_multiple_of(ROWS_BETWEEN_LOOKS) && !goes_on(rows);
        !is_over
    })?;
    Ok((!is_over).then(|| StateDigest {
        applied_index,
        rows,
        digest: hasher.finalize().into(),
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use helve_proto::peer::v1::LogId;

    use super::*;
    use crate::storage::options::StateOptions;

    type Row = (&'static str, Option<&'static str>);

    async fn digest_of(writes: &[&[Row]]) -> StateDigest {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDb::open(directory.path(), StateOptions::default()).unwrap();
        for (index, rows) in (1..).zip(writes) {
            let rows = rows
                .iter()
                .map(|(key, value)| (Bytes::from(*key), value.map(Bytes::from)));
            let log_id = LogId { term: 1, index };
            state.write(rows, &log_id, None).unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        Digester::new(Arc::new(state))
            .digest(deadline)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn the_digest_depends_on_the_rows_and_on_nothing_else() {
        let at_once = digest_of(&[&[], &[], &[("a", Some("1")), ("b", Some("2"))]]).await;
        let bit_by_bit = digest_of(&[
            &[("b", Some("2")), ("c", Some("3"))],
            &[("a", Some("0"))],
            &[("a", Some("1")), ("c", None)],
        ]);
        assert_eq!(at_once, bit_by_bit.await);
        assert_eq!((at_once.applied_index, at_once.rows), (3, 2));
        for other in [
            [("a", Some("1")), ("b", Some("3"))],
            [("a", Some("1b")), ("2", Some(""))],
            [("a", Some("1")), ("c", Some("2"))],
        ] {
            let other = digest_of(&[&[], &[], &other]).await;
            assert_ne!(at_once.digest, other.digest);
        }
    }
}
