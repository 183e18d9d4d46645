//! The thread that applies.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};

use tokio::sync::watch;

use super::{
    Progress,
    apply_queue::ApplyQueue,
    rows::{Chunk, Rows},
};
use crate::raft::types::Applied;

/// The way to the thread. Dropping it waits for the thread: one that outlived the node would close the database while the process ends,
/// and crash it.
pub(super) struct Applier {
    pub(super) queue: Arc<ApplyQueue>,
    progress: watch::Receiver<Progress>,
    thread: Option<JoinHandle<()>>,
}

/// Says how the thread ended, also if it panicked.
struct Ending(Arc<ApplyQueue>);

impl Applier {
    pub(super) fn start(
        rows: Arc<Rows>,
        progress: Arc<watch::Sender<Progress>>,
    ) -> io::Result<Self> {
        let queue = Arc::new(ApplyQueue::new(progress.borrow().index));
        let followed = progress.subscribe();
        let ending = Ending(Arc::clone(&queue));
        let thread = thread::Builder::new().name("helve-apply".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = run(&ending.0, &rows, &progress) {
                ending.0.end(error.to_string());
            }
        })?;
        Ok(Self {
            queue,
            progress: followed,
            thread: Some(thread),
        })
    }

    /// Has entries applied, soon. Whoever waits for one that carries a responder is answered then.
    ///
    /// # Errors
    /// If nothing is applied any more: a write failed, or an entry was none that this version may apply.
    pub(super) async fn push(&self, chunk: Chunk) -> io::Result<()> {
        self.queue.push(chunk).await.map_err(io::Error::other)
    }

    /// Waits until this entry is applied.
    ///
    /// # Errors
    /// If it never will be.
    pub(super) async fn applied(&self, index: u64) -> io::Result<()> {
        self.queue.want(index);
        let mut progress = self.progress.clone();
        tokio::select! {
            biased;
            applied = progress.wait_for(|progress| progress.index >= index) => {
                applied.map_err(|_| io::Error::other("the apply thread stopped"))?;
                Ok(())
            }
            why = self.queue.ended() => Err(io::Error::other(why)),
        }
    }
}

fn run(queue: &ApplyQueue, rows: &Rows, progress: &watch::Sender<Progress>) -> io::Result<()> {
    while let Some(chunk) = queue.next() {
        let before = *progress.borrow();
        let (answers, after) = rows.apply(chunk, before)?;
        queue.note_applied(after.index);
        progress.send_replace(after);
        for (responder, outcome) in answers {
            responder.send(Applied(outcome));
        }
    }
    Ok(())
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end("the apply thread stopped".to_owned());
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the apply thread panicked");
        }
    }
}
