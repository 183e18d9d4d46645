//! The room in memory that reads share: a stored value takes up many times its bytes once it is
//! parsed.

use std::sync::Arc;

use helve_http::LogThrottle;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::error::ToolError;

/// Bytes that the values of all reads under way may take up once they are parsed:
/// `read-parsed-bytes` in `docs/limits.md`.
pub(super) const READ_PARSED_BYTES_MAX: usize = 256 << 20;
/// Bytes of one permit.
const PERMIT_BYTES: usize = 1 << 10;

/// Reads that get no room have one line for many.
static REFUSED: LogThrottle = LogThrottle::new();

/// The room. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct ReadRoom {
    permits: Arc<Semaphore>,
    /// Permits that one read needs at most, so that the largest values can be read.
    read_max: u32,
}

impl ReadRoom {
    /// Room for this many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        let permits = bytes / PERMIT_BYTES;
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            read_max: u32::try_from(permits / 2).unwrap_or(u32::MAX),
        }
    }

    /// Waits for room for this many bytes, or half of all if they are more. It is given back when
    /// what this returns is dropped.
    ///
    /// # Errors
    /// [`Unavailable`](ToolError::Unavailable), if there is none by then.
    pub(super) async fn claim(
        &self,
        bytes: usize,
        until: Instant,
    ) -> Result<OwnedSemaphorePermit, ToolError> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        let permits = permits.min(self.read_max);
        let claimed = Arc::clone(&self.permits).acquire_many_owned(permits);
        let Ok(Ok(claimed)) = timeout_at(until, claimed).await else {
            if let Some(count) = REFUSED.count(Instant::now().into_std()) {
                tracing::warn!(
                    count,
                    bytes,
                    "reads got no room for their values in time, the last one for these bytes"
                );
            }
            return Err(ToolError::Unavailable);
        };
        Ok(claimed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn read_waits_until_an_earlier_one_gives_its_room_back() {
        let room = ReadRoom::of(8 * PERMIT_BYTES);
        let until = Instant::now() + Duration::from_secs(60);
        // Each counts as half of the room, however heavy it is.
        let first = room.claim(usize::MAX, until).await.unwrap();
        let _second = room.claim(5 * PERMIT_BYTES, until).await.unwrap();
        let third = room.claim(1, until);
        tokio::pin!(third);
        tokio::select! {
            biased;
            claimed = &mut third => panic!("there is no room yet: {claimed:?}"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        assert_eq!(third.await.unwrap().num_permits(), 1);
    }

    #[tokio::test]
    async fn read_that_gets_no_room_in_time_is_told_so() {
        let room = ReadRoom::of(8 * PERMIT_BYTES);
        let passed = Instant::now();
        // What is free is had at once, even now.
        let held = room.claim(4 * PERMIT_BYTES, passed).await.unwrap();
        let _held = room.claim(4 * PERMIT_BYTES, passed).await.unwrap();
        let refused = room.claim(1, passed).await.unwrap_err();
        assert_eq!(refused, ToolError::Unavailable);
        drop(held);
        assert!(room.claim(1, passed).await.is_ok());
    }
}
