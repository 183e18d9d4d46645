//! Rows that the writer is about to read, fetched side by side where the disk is slow: one after the other, each would hold up all that
//! is written behind it. What was fetched is found where every read looks first, in the block cache or the operating system's.

use std::{panic, thread};

use bytes::Bytes;
use helve_machine::{Fault, View};

use super::{disk_waits::DiskWaits, state_view::StateView};
use crate::limits::{DISK_READS_MAX, DISK_READS_TOGETHER_MAX};

/// Fetches these rows, and notes which reads waited.
pub(super) fn fetch(view: &StateView<'_>, waits: &DiskWaits, keys: &[Bytes]) -> Result<(), Fault> {
    side_by_side(waits, keys, |key| view.get(key).map(drop))
}

/// On as many threads as `waits` says pays, this one not among them: it waits for the others, which is no read that waits.
fn side_by_side(
    waits: &DiskWaits,
    keys: &[Bytes],
    read: impl Fn(&Bytes) -> Result<(), Fault> + Sync,
) -> Result<(), Fault> {
    let threads = keys.len().div_ceil(waits.reads_together());
    let share = keys.len().div_ceil(threads.clamp(1, DISK_READS_MAX)).max(1);
    let read = |keys: &[Bytes]| waits.during(keys.len(), || keys.iter().try_for_each(&read));
    thread::scope(|scope| {
        let reading: Vec<_> = keys
            .chunks(share)
            .map(|keys| thread::Builder::new().spawn_scoped(scope, || read(keys)))
            .collect();
        let mut fetched = Ok(());
        for thread in reading {
            // Without a thread the writer finds these rows itself.
            let Ok(thread) = thread else { continue };
            let read = thread
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic));
            fetched = fetched.and(read);
        }
        fetched
    })
}

/// Whether recent reads waited so often that it pays.
pub(super) fn pays(waits: &DiskWaits) -> bool {
    waits.reads_together() < DISK_READS_TOGETHER_MAX
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::sync::{Barrier, mpsc};

    use super::*;

    fn keys(count: u8) -> Vec<Bytes> {
        (0..count).map(|key| Bytes::from(vec![key])).collect()
    }

    #[test]
    fn rows_of_a_slow_disk_are_fetched_side_by_side_and_an_error_is_told() {
        let waits = DiskWaits::default();
        assert!(!pays(&waits));
        let (_never, wait) = mpsc::channel::<()>();
        while waits.reads_together() > 1 {
            // A disk: nothing is ever sent, so this thread waits.
            waits.during(1, || {
                wait.recv_timeout(std::time::Duration::from_millis(1))
                    .unwrap_err()
            });
        }
        assert!(pays(&waits));
        let all = Barrier::new(DISK_READS_MAX);
        let read = |_: &Bytes| {
            all.wait();
            Ok(())
        };
        side_by_side(&waits, &keys(16), read).unwrap();
        let one_of_them = |key: &Bytes| match key[..] {
            [7] => Err(Fault::Corrupt("the seventh")),
            _ => Ok(()),
        };
        side_by_side(&waits, &keys(100), one_of_them).unwrap_err();
        side_by_side(&waits, &keys(0), one_of_them).unwrap();
        while pays(&waits) {
            side_by_side(&waits, &keys(100), |_| Ok(())).unwrap();
        }
    }
}
