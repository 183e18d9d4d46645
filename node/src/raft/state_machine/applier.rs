//! The thread that applies.

use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use helve_proto::command::v1::Outcome;
use tokio::sync::oneshot;

use super::{
    Progress,
    rows::{Chunk, Rows},
};

/// One outcome for each entry, and how far the rows are then.
type Applied = (Vec<Outcome>, Progress);

struct Work {
    chunk: Chunk,
    /// How far the rows are before it.
    before: Progress,
    done: oneshot::Sender<io::Result<Applied>>,
}

/// The way to the thread. Dropping it waits for the thread: one that outlived the node would close the database while the process ends,
/// and crash it.
pub(super) struct Applier {
    /// `None` once dropped.
    queue: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Applier {
    pub(super) fn start(rows: Arc<Rows>) -> io::Result<Self> {
        let (queue, work) = mpsc::channel::<Work>();
        let thread = thread::Builder::new().name("helve-apply".to_owned());
        let thread = thread.spawn(move || {
            while let Ok(work) = work.recv() {
                let applied = rows.apply(work.chunk, work.before);
                // Nobody waits for it only when consensus has stopped.
                let _ = work.done.send(applied);
            }
        })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    pub(super) async fn apply(&self, chunk: Chunk, before: Progress) -> io::Result<Applied> {
        let (done, applied) = oneshot::channel();
        let gone = || io::Error::other("the apply thread stopped");
        let work = Work {
            chunk,
            before,
            done,
        };
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(work).map_err(|_| gone())?;
        applied.await.map_err(|_| gone())?
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the apply thread panicked");
        }
    }
}
